// SPDX-License-Identifier: BSD-3-Clause
// The responder against hand-made requests: PSN regions, MSN, duplicates, replay, RNR.
// What it refuses: rc_refusals.cpp.
// IBTA volume 1, 9.7.4, 9.7.5, 9.7.7.1, 9.9.3.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x100;
constexpr uint8_t kAck = 0x1f, kNakSequence = 0x60;

std::vector<Sge> buffer(uint32_t bytes, uint64_t offset = 0x8000) {
    return {{kMemoryBase + offset, bytes, kKey}};
}

void check_answer(const Packets& p, uint32_t psn, uint8_t syndrome) {
    REQUIRE(p.size() == 1);
    CHECK(p[0].opcode() == RcAcknowledge);
    CHECK(p[0].psn() == psn);
    // The credits of an ACK: rc_credits.cpp.
    CHECK((syndrome == kAck ? p[0].syndrome() | kAck : p[0].syndrome()) == int{syndrome});
}

constexpr uint32_t kWindow = 0x7701;

}  // namespace

TEST_CASE("requests are answered in RTR; the first one raises COMM_EST, once", "[sim][responder][10.3.1][11.6.3.1]") {
    using namespace qp_attr_mask;
    Probe p;
    transport::QpAttr attr = p.e.qp.attr();
    const auto step = [&](QpState to, uint32_t mask) {
        attr.state = to;
        REQUIRE(p.e.qp.modify(attr, mask | kState, p.now) == 0);
    };
    step(QpState::Reset, 0);
    CHECK(p.write(RcWriteOnly, kPsn, 4, 4).empty());
    step(QpState::Init, kPkeyIndex | kPort | kAccessFlags);
    CHECK(p.write(RcWriteOnly, kPsn, 4, 4).empty());
    CHECK(p.e.count(Counter::rx_dropped_in_state) == 2);
    step(QpState::Rtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer);
    CHECK(p.e.events.empty());
    check_answer(p.write(RcWriteOnly, kPsn, 4, 4), kPsn, kAck);
    check_answer(p.write(RcWriteOnly, kPsn + 1, 4, 4), kPsn + 1, kAck);
    CHECK(p.e.events == std::vector{AsyncEvent::CommEst});
}

TEST_CASE("MSN counts messages, not packets, and never duplicates", "[sim][responder][case9][9.7.7.1]") {
    Probe p;
    CHECK(p.write(RcWriteFirst, kPsn, 1024, 2500)[0].msn() == 0);
    CHECK(p.inject(RcWriteMiddle, kPsn + 1, {}, 1024)[0].msn() == 0);
    CHECK(p.inject(RcWriteLast, kPsn + 2, {}, 452)[0].msn() == 1);
    CHECK(p.inject(RcWriteLast, kPsn + 2, {}, 452)[0].msn() == 1);
    // A READ raises it when accepted: its first response carries the new number.
    const Packets r = p.read(kPsn + 3, 0, 3000);
    REQUIRE(r.size() == 3);
    CHECK(r[0].msn() == 2);
    CHECK(r[2].msn() == 2);
    CHECK(p.read(kPsn + 3, 0, 3000)[0].msn() == 2);
    CHECK(p.fetch_add(kPsn + 6, 64, 5)[0].msn() == 3);
}

TEST_CASE("MSN and PSN wrap at 24 bits", "[sim][responder][case9][9.7.7.1][9.7.1]") {
    Probe p;
    // 2^24 + 4 messages, straight into the QP: one view with a new PSN each time.
    p.write(RcWriteOnly, kPsn, 0, 0);
    wire::Bth bth;
    wire::ExtHeaders ext;
    bth.opcode = static_cast<uint8_t>(RcWriteOnly);
    bth.dest_qp = p.e.qp.config().qpn;
    const FrameBytes frame = make_frame(make_headers(1), bth, ext, {});
    wire::PacketView view;
    REQUIRE(wire::parse_frame(*frame, view).ok());
    uint32_t psn = kPsn + 1;
    for (uint32_t i = 1; i < (1u << 24) + 3; ++i, ++psn) {
        view.bth.psn = psn & Psn::kMask;
        p.e.qp.handle_packet(view, p.now);
        if (i % 4096 == 0) p.poll();
    }
    const Packets last = p.write(RcWriteOnly, psn, 0, 0);
    REQUIRE(last.size() == 1);
    CHECK(last[0].psn() == (kPsn + 3));
    CHECK(last[0].msn() == 4);
}

TEST_CASE("duplicates are answered again and never executed again", "[sim][responder][case10][9.7.5.1.4][9.7.4.1.1]") {
    Probe p;
    p.e.receive(buffer(100));
    p.e.receive(buffer(100));
    check_answer(p.inject(RcSendOnly, kPsn, {}, 50), kPsn, kAck);
    CHECK(p.e.receives_done == 1);
    check_answer(p.inject(RcSendOnly, kPsn, {}, 50), kPsn, kAck);
    CHECK(p.e.receives_done == 1);
    check_answer(p.write(RcWriteOnly, kPsn + 1, 8, 8, 0x2000), kPsn + 1, kAck);
    std::memset(p.e.memory.at(kMemoryBase + 0x2000), 0x55, 8);
    check_answer(p.write(RcWriteOnly, kPsn + 1, 8, 8, 0x2000), kPsn + 1, kAck);
    CHECK(*p.e.memory.at(kMemoryBase + 0x2000) == std::byte{0x55});
    // A duplicate of an older one is acknowledged up to the newest.
    check_answer(p.inject(RcSendOnly, kPsn, {}, 50), kPsn + 1, kAck);
    CHECK(p.e.count(Counter::duplicate_request) == 3);
    CHECK(p.e.qp.state() == QpState::Rts);
}

TEST_CASE("a duplicate is acknowledged even if it does not ask, a burst of them once",
          "[sim][responder][case10][9.7.5.1.4][9.7.5.1.2]") {
    // A peer that has gone back and then takes the ACK it had lost stops in the middle of its message.
    Probe p;
    CHECK(p.write(RcWriteFirst, kPsn, 1024, 2500).size() == 1);
    CHECK(p.inject(RcWriteMiddle, kPsn + 1, {}, 1024, false).empty());
    check_answer(p.inject(RcWriteLast, kPsn + 2, {}, 452), kPsn + 2, kAck);
    check_answer(p.inject(RcWriteMiddle, kPsn + 1, {}, 1024, false), kPsn + 2, kAck);
    p.e.receive(buffer(4000));
    CHECK(p.inject(RcSendFirst, kPsn + 3, {}, 1024, false).empty());
    check_answer(p.inject(RcSendLast, kPsn + 4, {}, 4), kPsn + 4, kAck);
    check_answer(p.inject(RcSendFirst, kPsn + 3, {}, 1024, false), kPsn + 4, kAck);
    CHECK(p.e.receives_done == 1);
}

TEST_CASE("FETCH_ADD with its answer lost adds once", "[sim][responder][case10][9.7.5.1.5]") {
    Probe p;
    uint64_t& v = *reinterpret_cast<uint64_t*>(p.e.memory.at(kMemoryBase + 64));
    v = 40;
    for (int i = 0; i < 5; ++i) {
        const Packets r = p.fetch_add(kPsn, 64, 2);
        REQUIRE(r.size() == 1);
        CHECK(r[0].opcode() == RcAtomicAcknowledge);
        CHECK(r[0].view.atomic_ack_eth().original == 40);
        CHECK(v == 42);
    }
}

TEST_CASE("ATOMIC WRITE: stored once, answered by a READ response of no bytes, once more when asked again", "[sim][responder][A19]") {
    Probe p;
    const auto& v = *reinterpret_cast<const uint64_t*>(p.e.memory.at(kMemoryBase + 64));
    uint64_t first = 0;
    for (int i = 0; i < 3; ++i) {
        const Packets r = p.write(RcAtomicWrite, kPsn, 8, 8, 64);
        REQUIRE(r.size() == 1);
        CHECK(r[0].opcode() == RcReadResponseOnly);
        CHECK(r[0].view.payload.empty());
        CHECK(r[0].psn() == kPsn);
        CHECK(r[0].msn() == 1);
        if (i == 0) {
            first = v;
            CHECK(first != 0);
        } else {
            CHECK(v == 5);  // not executed again
        }
        std::memset(p.e.memory.at(kMemoryBase + 64), 0, 8);
        *p.e.memory.at(kMemoryBase + 64) = std::byte{5};
    }
    // Another request under its number is no repetition of it.
    CHECK(p.read(kPsn, 64, 0).empty());
    CHECK(p.fetch_add(kPsn, 64, 1).empty());
    check_answer(p.write(RcWriteOnly, kPsn + 1, 8, 8), kPsn + 1, kAck);
}

TEST_CASE("a READ is executed again from its RETH, the rest of one too", "[sim][responder][case10][9.7.5.1.4][9.7.3]") {
    Probe p;
    CHECK(p.read(kPsn, 0x1000, 4000).size() == 4);
    *p.e.memory.at(kMemoryBase + 0x1000 + 2048) = std::byte{0x77};
    const Packets rest = p.read(kPsn + 2, 0x1000 + 2048, 4000 - 2048);
    REQUIRE(rest.size() == 2);
    CHECK(rest[0].opcode() == RcReadResponseFirst);
    CHECK(rest[0].psn() == kPsn + 2);
    CHECK(rest[0].view.payload[0] == std::byte{0x77});
    CHECK(rest[1].opcode() == RcReadResponseLast);
    // Another address or length under the same PSN is not the READ that was asked for.
    CHECK(p.read(kPsn + 2, 0x1000, 4000 - 2048).empty());
    CHECK(p.read(kPsn, 0x1000, 5000).empty());
    CHECK(p.read(kPsn + 4, 0x1000, 10).size() == 1);
}

TEST_CASE("a duplicate ACK does not pass a READ whose answer may be lost", "[sim][responder][9.7.5.1.2][9.7.5.2.4]") {
    Probe p;
    p.write(RcWriteOnly, kPsn, 4, 4);
    p.read(kPsn + 1, 0, 10);
    p.write(RcWriteOnly, kPsn + 2, 4, 4);
    check_answer(p.write(RcWriteOnly, kPsn, 4, 4), kPsn, kAck);
}

TEST_CASE("only the depth promised is kept for replay", "[sim][responder][9.7.5.1.5]") {
    PairOptions o;
    o.attr.max_dest_rd_atomic = 2;
    Probe p(o);
    for (uint32_t i = 0; i < 4; ++i) CHECK(p.read(kPsn + i, 0, 4).size() == 1);
    CHECK(p.read(kPsn + 3, 0, 4).size() == 1);
    CHECK(p.read(kPsn + 2, 0, 4).size() == 1);
    CHECK(p.read(kPsn + 1, 0, 4).empty());
}

TEST_CASE("one NAK for a gap, another when the peer has gone back", "[sim][responder][case11][9.7.5.1.3]") {
    Probe p;
    p.write(RcWriteFirst, kPsn, 1024, 16 * 1024);
    check_answer(p.inject(RcWriteMiddle, kPsn + 2, {}, 1024), kPsn + 1, kNakSequence);
    for (uint32_t i = 3; i < 15; ++i) CHECK(p.inject(RcWriteMiddle, kPsn + i, {}, 1024).empty());
    // It starts over, and the repetition of the missing packet is lost too.
    check_answer(p.inject(RcWriteMiddle, kPsn + 2, {}, 1024), kPsn + 1, kNakSequence);
    CHECK(p.inject(RcWriteMiddle, kPsn + 3, {}, 1024).empty());
    CHECK(p.e.count(Counter::naks_sent) == 2);
    check_answer(p.inject(RcWriteMiddle, kPsn + 1, {}, 1024), kPsn + 1, kAck);
}

TEST_CASE("length 0 with any key and address", "[sim][responder][case7][C9-88]") {
    Probe p;
    check_answer(p.write(RcWriteOnly, kPsn, 0, 0, 0xdead'0000'0000, 0x99999), kPsn, kAck);
    const Packets r = p.read(kPsn + 1, 0xdead'0000'0000, 0, 0x99999);
    REQUIRE(r.size() == 1);
    CHECK(r[0].opcode() == RcReadResponseOnly);
    CHECK(r[0].view.payload.empty());
}

TEST_CASE("RNR: no receive, then one", "[sim][responder][9.7.4.1.4]") {
    Probe p;
    const Packets rnr = p.inject(RcSendOnly, kPsn, {}, 10);
    check_answer(rnr, kPsn, 0x21);                          // min_rnr_timer 1
    CHECK(p.inject(RcSendOnly, kPsn + 1, {}, 10).empty());  // dropped silently
    p.e.receive(buffer(100));
    check_answer(p.inject(RcSendOnly, kPsn, {}, 10), kPsn, kAck);
    CHECK(p.e.receives_done == 1);
    CHECK(p.e.count(Counter::out_of_buffer) == 1);
}

TEST_CASE("WRITE with immediate takes a receive and leaves its buffer alone",
          "[sim][responder][case23][9.4.3][9.4.1]") {
    Probe p;
    p.e.receive(buffer(100));
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase + 0x1000, kKey, 8};
    ext.immdt = {0x11223344};
    check_answer(p.inject(RcWriteOnlyImm, kPsn, ext, 8), kPsn, kAck);
    REQUIRE(p.e.receives.size() == 1);
    CHECK(p.e.receives[0].opcode == WcOpcode::RecvRdmaWithImm);
    CHECK(p.e.receives[0].byte_len == 8);
    CHECK(p.e.receives[0].imm_data == 0x44332211);
    CHECK(*p.e.memory.at(kMemoryBase + 0x8000) == std::byte{0});
}

TEST_CASE("more placements under way than the window holds: dropped, not lost", "[sim][responder][9.7.4.1.4]") {
    PairOptions o;
    o.config.dma_window = 4;
    Probe p(o);
    p.e.memory.slowest = kMillisecond;
    for (uint32_t i = 0; i < 6; ++i) p.write(RcWriteOnly, kPsn + i, 4, 4);
    CHECK(p.e.count(Counter::responder_backlog_drops) >= 1);
    p.wait(5 * kMillisecond);
    check_answer(p.poll(), kPsn + 4, kNakSequence);
    CHECK(p.write(RcWriteOnly, kPsn + 4, 4, 4).empty());
    p.wait(5 * kMillisecond);
    check_answer(p.poll(), kPsn + 4, kAck);
}

TEST_CASE("on an SRQ the last receive completes before LAST_WQE_REACHED tells so", "[sim][responder][10.3.1][11.6.3.6]") {
    PairOptions o;
    o.config.has_srq = true;
    Probe p(o);
    p.e.memory.slowest = kMillisecond;
    SECTION("a receive was taken, its placement is out") {
        p.e.receive(buffer(2000));
        p.inject(RcSendFirst, kPsn, {}, 1024);
        p.e.set_state(QpState::Err);
        p.poll();
        CHECK(p.e.receives.empty());  // the buffer is not the program's yet
        CHECK(p.e.events.empty());
        SECTION("it ends") {
            p.wait(2 * kMillisecond);
            p.poll();
            REQUIRE(p.e.receives.size() == 1);
            CHECK(p.e.receives[0].status == WcStatus::WrFlushErr);
            CHECK(p.e.events == std::vector{AsyncEvent::QpLastWqeReached});
        }
        SECTION("RESET: there is nothing to tell any more") {
            p.e.set_state(QpState::Reset);
            p.wait(2 * kMillisecond);
            p.poll();
            CHECK(p.e.events.empty());
        }
    }
    SECTION("none was") {
        p.e.set_state(QpState::Err);
        p.poll();
        p.poll();
        CHECK(p.e.events == std::vector{AsyncEvent::QpLastWqeReached});
    }
}

TEST_CASE("SEND with invalidate ends the window, then tells the receive", "[sim][responder][9.4.1.1.3][10.6.6]") {
    Probe p;
    p.e.bind_window(kWindow);
    p.e.receive(buffer(2000));
    p.e.receive(buffer(2000));
    check_answer(p.write(RcWriteOnly, kPsn, 4, 4, 0x100, kWindow), kPsn, kAck);
    check_answer(p.inject(RcSendFirst, kPsn + 1, {}, 1024), kPsn + 1, kAck);
    wire::ExtHeaders ext;
    ext.ieth.rkey = kWindow;
    check_answer(p.inject(RcSendLastInv, kPsn + 2, ext, 100), kPsn + 2, kAck);
    REQUIRE(p.e.receives.size() == 1);
    CHECK(p.e.receives[0].status == WcStatus::Success);
    CHECK(p.e.receives[0].byte_len == 1124);
    CHECK(p.e.receives[0].wc_flags == wc_flags::kWithInv);
    CHECK(p.e.receives[0].imm_data == kWindow);
    CHECK_FALSE(p.e.keys.may_invalidate(kWindow, kPd, p.e.qp.config().qpn));
    // A repetition is answered and invalidates nothing: the window may have been bound again.
    memory::WindowBind again{kWindow + 1, kBindable, kPd, p.e.qp.config().qpn, access_flags::kRemoteWrite,
                             kMemoryBase, 64};
    REQUIRE(p.e.keys.bind(again));
    ext.ieth.rkey = kWindow + 1;
    check_answer(p.inject(RcSendLastInv, kPsn + 2, ext, 100), kPsn + 2, kAck);
    CHECK(p.e.keys.may_invalidate(kWindow + 1, kPd, p.e.qp.config().qpn));
    check_answer(p.write(RcWriteOnly, kPsn + 3, 4, 4, 0x100, kWindow), kPsn + 3, 0x62);
}

TEST_CASE("SEND with invalidate of what is not this QP's to end", "[sim][responder][9.4.1.1.3][10.6.6]") {
    const auto refused = [](uint32_t key, auto prepare) {
        Probe p;
        p.e.receive(buffer(2000));
        prepare(p.e);
        wire::ExtHeaders ext;
        ext.ieth.rkey = key;
        check_answer(p.inject(RcSendOnlyInv, kPsn, ext, 16), kPsn, 0x62);
        CHECK(p.e.qp.state() == QpState::Err);
        REQUIRE(p.e.receives.size() == 1);
        CHECK(p.e.receives[0].status == WcStatus::RemInvReqErr);
    };
    refused(kKey, [](Endpoint&) {});     // a region
    refused(kWindow, [](Endpoint&) {});  // nothing
    refused(kWindow, [](Endpoint& e) {   // bound to another QP
        e.bind_window(kWindow);
        e.keys.unbind_all_of(e.qp.config().qpn);
        memory::WindowBind b{kWindow, kBindable, kPd, 0x99, access_flags::kRemoteWrite, kMemoryBase, 64};
        REQUIRE(e.keys.bind(b));
    });
}

TEST_CASE("SEND with invalidate between two QPs, also on a bad link", "[sim][rc][9.4.1.1.3]") {
    for (const double rate : {0.0, 0.1}) {
        QpPair pair;
        pair.set_faults({rate, rate, rate, rate});
        constexpr uint32_t kCount = 20;
        for (uint32_t i = 0; i < kCount; ++i) {
            pair.b.bind_window(0x7701 + (i << 8));
            pair.b.receive(buffer(3000, 0x20000 + i * 0x1000));
            PostedSend wr;
            wr.wqe.opcode = WrOpcode::SendWithInv;
            wr.wqe.flags = send_flags::kSignaled;
            wr.wqe.imm_data = 0x7701 + (i << 8);
            wr.sges = buffer(i % 2 == 0 ? 3000 : 30, 0x1000 * i);
            pair.a.send(std::move(wr));
        }
        CAPTURE(rate);
        REQUIRE(pair.run([&] { return pair.b.receives.size() == kCount && pair.a.sends.size() == kCount; }));
        for (uint32_t i = 0; i < kCount; ++i) {
            CHECK(pair.a.sends[i].status == WcStatus::Success);
            CHECK(pair.a.sends[i].opcode == WcOpcode::Send);
            CHECK(pair.b.receives[i].status == WcStatus::Success);
            CHECK(pair.b.receives[i].wc_flags == wc_flags::kWithInv);
            CHECK(pair.b.receives[i].imm_data == 0x7701 + (i << 8));
            CHECK_FALSE(pair.b.keys.may_invalidate(0x7701 + (i << 8), kPd, pair.b.qp.config().qpn));
        }
        CHECK(pair.healthy());
    }
}
