// SPDX-License-Identifier: BSD-3-Clause
// The requester and completer against a hand-made peer: NAKs, READ continuation, windows, fences, local errors.
// IBTA volume 1, 9.7.5.2, 9.7.6, 9.7.7, 9.9.2. Timers and retries: rc_retry.cpp. SQD: sqd.cpp.
// What leaves in one turn, and a gather that fails: rc_turns.cpp.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x200;
constexpr uint8_t kAck = 0x1f, kNakSequence = 0x60, kRnr1 = 0x21;

std::vector<Sge> local(uint32_t bytes, uint64_t offset = 0x1000, uint32_t key = kKey) {
    return {{kMemoryBase + offset, bytes, key}};
}
constexpr uint64_t kRemote = kMemoryBase + 0x10000;

std::vector<uint32_t> psns(const Packets& p) {
    std::vector<uint32_t> all;
    for (const auto& c : p) all.push_back(c.psn());
    return all;
}

Packets read_response(Probe& p, wire::Opcode op, uint32_t psn, uint32_t bytes) {
    wire::ExtHeaders ext;
    ext.aeth = {kAck, 1};
    return p.inject(op, psn, ext, bytes);
}

}  // namespace

TEST_CASE("a NAK for a packet in the middle of a message resumes there", "[sim][requester]") {
    Probe p;
    std::vector<Sge> sges{
        {kMemoryBase + 0x1000, 700, kKey}, {kMemoryBase + 0x2000, 5, kKey}, {kMemoryBase + 0x3000, 3000, kKey}};
    for (const Sge& s : sges)
        for (uint32_t i = 0; i < s.length; ++i) p.e.memory.at(s.addr)[i] = static_cast<std::byte>(s.addr / 0x1000 + i);
    p.e.send(WrOpcode::RdmaWrite, sges, kRemote);
    const Packets first = p.poll();
    REQUIRE(first.size() == 4);
    const Packets again = p.answer(kPsn + 2, kNakSequence);
    REQUIRE(again.size() == 2);
    for (int i = 0; i < 2; ++i) {
        CHECK(again[i].opcode() == first[i + 2].opcode());
        CHECK(
            std::equal(again[i].view.payload.begin(), again[i].view.payload.end(), first[i + 2].view.payload.begin()));
    }
    CHECK(p.answer(kPsn + 3, kAck).empty());
    CHECK(p.e.sends.size() == 1);
}

TEST_CASE("READ: a gap in the response asks for the rest only", "[sim][requester][9.7.3][9.7.5.1.4][9.7.6.1.4]") {
    Probe p;
    p.e.send(WrOpcode::RdmaRead, local(5000), kRemote);
    REQUIRE(p.poll().size() == 1);
    CHECK(read_response(p, RcReadResponseFirst, kPsn, 1024).empty());
    CHECK(read_response(p, RcReadResponseMiddle, kPsn + 1, 1024).empty());
    const Packets again = read_response(p, RcReadResponseMiddle, kPsn + 3, 1024);
    REQUIRE(again.size() == 1);
    CHECK(again[0].opcode() == RcReadRequest);
    CHECK(again[0].psn() == kPsn + 2);
    CHECK(again[0].view.reth().va == kRemote + 2048);
    CHECK(again[0].view.reth().length == 5000 - 2048);
    CHECK(read_response(p, RcReadResponseLast, kPsn + 4, 904).empty());  // the rest of the old run
    CHECK(read_response(p, RcReadResponseFirst, kPsn + 2, 1024).empty());
    CHECK(read_response(p, RcReadResponseMiddle, kPsn + 3, 1024).empty());
    CHECK(p.e.sends.empty());
    CHECK(read_response(p, RcReadResponseLast, kPsn + 4, 904).empty());
    REQUIRE(p.e.sends.size() == 1);
    CHECK(p.e.sends[0].status == WcStatus::Success);
    CHECK(p.e.sends[0].byte_len == 5000);
    CHECK(p.e.count(Counter::implied_nak_seq_err) == 1);
}

TEST_CASE("an ACK behind an unanswered READ is an implied NAK; what it acknowledges is not sent again",
          "[sim][requester][9.7.5.1.2][9.7.5.2.4]") {
    Probe p;
    p.e.send(WrOpcode::RdmaRead, local(100), kRemote);
    p.e.send(WrOpcode::Send, local(10));
    p.e.send(WrOpcode::RdmaRead, local(100), kRemote);
    p.e.send(WrOpcode::Send, local(10));
    REQUIRE(p.poll().size() == 4);
    const Packets again = p.answer(kPsn + 1, kAck);
    CHECK(psns(again) == std::vector<uint32_t>{kPsn, kPsn + 2, kPsn + 3});
    CHECK(p.e.sends.empty());
    read_response(p, RcReadResponseOnly, kPsn, 100);
    CHECK(p.e.sends.size() == 2);
}

TEST_CASE("responses that no responder may send", "[sim][requester][9.7.6.1.1][9.7.6.1.4][9.7.5.1.2]") {
    struct Row {
        wire::Opcode op;
        uint32_t psn, bytes;
    };
    for (const Row& row :
         {Row{RcReadResponseOnly, kPsn, 1024}, Row{RcReadResponseFirst, kPsn, 1023},
          Row{RcReadResponseLast, kPsn, 1024}, Row{RcReadResponseFirst, kPsn, 0}, Row{RcAtomicAcknowledge, kPsn, 0}}) {
        Probe p;
        p.e.send(WrOpcode::RdmaRead, local(2000), kRemote);
        p.poll();
        CAPTURE(static_cast<int>(row.op));
        read_response(p, row.op, row.psn, row.bytes);
        REQUIRE(p.e.sends.size() == 1);
        CHECK(p.e.sends[0].status == WcStatus::BadRespErr);
    }
    // Outside the window: ghosts, dropped.
    Probe p;
    p.e.send(WrOpcode::Send, local(10));
    p.poll();
    for (const uint32_t psn : {kPsn + 1, kPsn + 100, kPsn - 1, kPsn - 1000, kPsn + 0x800000})
        for (const uint8_t s : {kAck, kNakSequence, kRnr1, uint8_t{0x61}, uint8_t{0x62}})
            CHECK(p.answer(psn & 0xFFFFFF, s).empty());
    for (const uint8_t s : {0x40, 0x5f, 0x80, 0xff, 0x65, 0x7f})
        CHECK(p.answer(kPsn, s).empty());  // reserved syndromes
    CHECK(p.e.qp.state() == QpState::Rts);
    CHECK(p.e.sends.empty());
    p.answer(kPsn, kAck);
    CHECK(p.e.sends.size() == 1);
}

TEST_CASE("NAK codes become completion statuses, in order, and flush the rest", "[sim][requester][9.9.3][10.8.6]") {
    struct Row {
        uint8_t syndrome;
        WcStatus status;
    };
    for (const Row& row : {Row{0x61, WcStatus::RemInvReqErr}, Row{0x62, WcStatus::RemAccessErr},
                           Row{0x63, WcStatus::RemOpErr}, Row{0x64, WcStatus::RemInvRdReqErr}}) {
        Probe p;
        for (int i = 0; i < 4; ++i) p.e.send(WrOpcode::Send, local(10), 0, 0, 0);  // unsignaled
        p.e.receive(local(10));
        p.poll();
        p.answer(kPsn + 1, row.syndrome);
        CHECK(p.e.sends_done == 4);
        REQUIRE(p.e.sends.size() == 3);  // the first succeeded silently
        CHECK(p.e.sends[0].wr_id == 1);
        CHECK(p.e.sends[0].status == row.status);
        CHECK(p.e.sends[1].status == WcStatus::WrFlushErr);
        CHECK(p.e.receives.at(0).status == WcStatus::WrFlushErr);
        CHECK(p.e.qp.state() == QpState::Err);
        CHECK(p.e.events.empty());
        // What is posted in ERR is flushed too.
        p.e.send(WrOpcode::Send, local(10));
        p.e.receive(local(10));
        CHECK(p.poll().empty());
        CHECK(p.e.sends.back().status == WcStatus::WrFlushErr);
        CHECK(p.e.receives.size() == 2);
    }
}

TEST_CASE("local errors complete in their turn", "[sim][requester][case22][10.8.5][C9-6]") {
    Probe p;
    p.e.send(WrOpcode::Send, local(10));
    WcStatus want = WcStatus::LocProtErr;
    SECTION("bad lkey, SEND") {
        p.e.send(WrOpcode::Send, local(10, 0, 0x999));
    }
    SECTION("bad lkey, READ") {
        p.e.send(WrOpcode::RdmaRead, local(10, 0, 0x999), kRemote);
    }
    SECTION("bad lkey, FETCH_ADD") {
        p.e.send(WrOpcode::AtomicFetchAndAdd, local(8, 0, 0x999), kRemote);
    }
    SECTION("beyond the region, in the third packet") {
        p.e.send(WrOpcode::RdmaWrite, local(4000, (4 << 20) - 2500), kRemote);
    }
    SECTION("the gather fails") {
        p.e.memory.fault_from = kMemoryBase + 0x5000 + 1500;
        p.e.memory.fault_to = p.e.memory.fault_from + 1;
        p.e.send(WrOpcode::RdmaWrite, local(4000, 0x5000), kRemote);
    }
    SECTION("operation unknown here") {
        p.e.send(WrOpcode::Tso, {});
        want = WcStatus::LocQpOpErr;
    }
    SECTION("found wrong by the engine") {
        PostedSend wr;
        wr.wqe.preset_error = want = WcStatus::LocLenErr;
        p.e.send(wr);
    }
    SECTION("atomic with a result of the wrong size") {
        p.e.send(WrOpcode::AtomicFetchAndAdd, local(4), kRemote);
        want = WcStatus::LocLenErr;
    }
    p.e.send(WrOpcode::Send, local(10));
    const Packets out = p.poll();
    REQUIRE(!out.empty());
    CHECK(out.back().psn() < kPsn + 4);
    CHECK(p.e.sends.empty());
    CHECK(p.e.qp.state() == QpState::Rts);
    p.answer(kPsn, kAck);
    REQUIRE(p.e.sends.size() == 3);
    CHECK(p.e.sends[0].status == WcStatus::Success);
    CHECK(p.e.sends[1].status == want);
    CHECK(p.e.sends[2].status == WcStatus::WrFlushErr);
    CHECK(p.e.qp.state() == QpState::Err);
}

TEST_CASE("READ data that cannot be placed", "[sim][requester]") {
    Probe p;
    p.e.memory.slowest = kMillisecond;
    p.e.memory.fault_from = kMemoryBase + 0x1000;
    p.e.memory.fault_to = p.e.memory.fault_from + 1;
    p.e.send(WrOpcode::RdmaRead, local(100), kRemote);
    p.e.send(WrOpcode::Send, local(100, 0x4000));
    p.poll();
    read_response(p, RcReadResponseOnly, kPsn, 100);
    p.answer(kPsn + 1, kAck);
    CHECK(p.e.sends.empty());
    p.wait(2 * kMillisecond);
    p.poll();
    REQUIRE(p.e.sends.size() == 2);
    CHECK(p.e.sends[0].status == WcStatus::LocProtErr);
    CHECK(p.e.sends[1].status == WcStatus::WrFlushErr);
}

TEST_CASE("a placement that fails for the peer's WRITE leaves our own READs alone", "[sim][requester][9.7.5.2.6]") {
    Probe p;
    p.e.memory.slowest = kMillisecond;
    p.e.memory.fault_from = kMemoryBase + 0x9000;
    p.e.memory.fault_to = p.e.memory.fault_from + 1;
    p.e.send(WrOpcode::RdmaRead, local(100), kRemote);
    p.e.send(WrOpcode::RdmaRead, local(100, 0x2000), kRemote);
    p.poll();
    p.write(RcWriteOnly, 0x100, 4, 4, 0x9000);
    read_response(p, RcReadResponseOnly, kPsn, 100);
    p.wait(3 * kMillisecond);
    p.poll();
    CHECK(p.e.qp.state() == QpState::Err);
    REQUIRE(p.e.sends.size() == 2);
    CHECK(p.e.sends[0].status == WcStatus::Success);
    CHECK(p.e.sends[1].status == WcStatus::WrFlushErr);
}

TEST_CASE("READ responses find room to be placed, whatever the peer writes meanwhile", "[sim][requester]") {
    PairOptions o;
    o.config.dma_window = 8;
    Probe p(o);
    p.e.memory.slowest = kMillisecond;
    for (int i = 0; i < 8; ++i) p.e.send(WrOpcode::RdmaRead, local(10, 0x1000), kRemote);
    // No more on the way than can be placed ...
    CHECK(p.poll().size() == 4);
    // ... and requests leave room for them.
    for (uint32_t i = 0; i < 8; ++i) p.write(RcWriteOnly, 0x100 + i, 4, 4);
    CHECK(p.e.count(Counter::responder_backlog_drops) >= 1);
    for (uint32_t i = 0; i < 4; ++i) read_response(p, RcReadResponseOnly, kPsn + i, 10);
    CHECK(p.e.count(Counter::unexpected_response) == 0);
    p.wait(20 * kMillisecond);
    p.poll();
    CHECK(p.e.sends.size() == 4);
}

TEST_CASE("the window: never more request packets than allowed; the last one asks for an ACK",
          "[sim][requester][9.7.1]") {
    PairOptions o;
    o.config.window_packets = 8;
    Probe p(o);
    p.e.send(WrOpcode::RdmaWrite, local(100 * 1024, 0x4000), kRemote);
    Packets out = p.poll();
    CHECK(out.size() == 8);
    CHECK(out.back().view.bth.ack_req);
    out = p.answer(kPsn + 2, kAck);
    CHECK(out.size() == 3);
    CHECK(out.back().view.bth.ack_req);
}

TEST_CASE("max_rd_atomic limits READs and atomics outstanding; 0 is legal and allows none",
          "[sim][requester][case27]") {
    PairOptions o;
    o.attr.max_rd_atomic = 2;
    Probe p(o);
    for (int i = 0; i < 4; ++i) p.e.send(WrOpcode::RdmaRead, local(10), kRemote);
    CHECK(p.poll().size() == 2);
    CHECK(psns(read_response(p, RcReadResponseOnly, kPsn, 10)) == std::vector<uint32_t>{kPsn + 2});
    o.attr.max_rd_atomic = 0;
    Probe none(o);
    none.e.send(WrOpcode::RdmaRead, local(10), kRemote);
    CHECK(none.poll().empty());
    CHECK(none.e.sends.at(0).status == WcStatus::LocQpOpErr);
}

TEST_CASE("128 READs outstanding, answered in order, under loss too", "[sim][requester]") {
    PairOptions o;
    o.attr.max_rd_atomic = o.attr.max_dest_rd_atomic = 128;
    o.config.send_window_wqes = 256;
    Probe p(o);
    for (int i = 0; i < 140; ++i) p.e.send(WrOpcode::RdmaRead, local(10), kRemote);
    CHECK(p.poll().size() == 128);
    CHECK(read_response(p, RcReadResponseOnly, kPsn, 10).size() == 1);
    for (const double loss : {0.0, 0.02}) {
        QpPair pair(o);
        pair.set_faults({.drop = loss});
        for (uint64_t i = 0; i < 1000; ++i) {
            *reinterpret_cast<uint64_t*>(pair.b.memory.at(kMemoryBase + 8 * i)) = i * i;
            pair.a.send(WrOpcode::RdmaRead, {{kMemoryBase + 8 * i, 8, kKey}}, kMemoryBase + 8 * i);
        }
        pair.settle();
        REQUIRE(pair.a.sends.size() == 1000);
        CHECK(pair.healthy());
        for (uint64_t i = 0; i < 1000; ++i)
            CHECK(*reinterpret_cast<uint64_t*>(pair.a.memory.at(kMemoryBase + 8 * i)) == i * i);
    }
}

TEST_CASE("a fence waits for READ data to be in place", "[sim][requester][10.8.3.3]") {
    Probe p;
    p.e.memory.slowest = kMillisecond;
    p.e.send(WrOpcode::RdmaRead, local(10), kRemote);
    p.e.send(WrOpcode::Send, local(10), 0, 0, send_flags::kSignaled | send_flags::kFence);
    CHECK(p.poll().size() == 1);
    CHECK(read_response(p, RcReadResponseOnly, kPsn, 10).empty());
    p.wait(2 * kMillisecond);
    const Packets out = p.poll();
    REQUIRE(out.size() == 1);
    CHECK(out[0].opcode() == RcSendOnly);
}

TEST_CASE("inline payload comes from mapped memory, keys are not looked at", "[sim][requester]") {
    Probe p;
    std::vector<std::byte> slot(3000, std::byte{0x5a});
    PostedSend wr;
    wr.wqe.opcode = WrOpcode::Send;
    wr.sges = {{0xdead, 3000, 0x999}};
    wr.wqe.mapped = slot.data();
    p.e.send(wr);
    const Packets out = p.poll();
    REQUIRE(out.size() == 3);
    CHECK(out[2].view.payload.size() == 3000 - 2048);
    CHECK(out[2].view.payload[0] == std::byte{0x5a});
}
