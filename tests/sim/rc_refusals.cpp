// SPDX-License-Identifier: BSD-3-Clause
// The responder against hand-made requests: what it refuses for good, with which
// NAK, completion and event: lengths, opcode order, keys, rights, memory that fails.
// IBTA volume 1, 9.7.4, 9.7.5, 9.7.7.1, 9.9.3.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x100;
constexpr uint8_t kAck = 0x1f, kNakInvalid = 0x61, kNakAccess = 0x62, kNakOperation = 0x63;

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

void check_refused(Probe& p, const Packets& out, uint32_t psn, uint8_t syndrome, AsyncEvent event) {
    check_answer(out, psn, syndrome);
    CHECK(p.e.qp.state() == QpState::Err);
    CHECK(p.e.events == std::vector{AsyncEvent{event}});
    // Nothing is answered any more.
    CHECK(p.write(RcWriteOnly, psn, 4, 4).empty());
}

}  // namespace

TEST_CASE("payload lengths that the position does not allow",
          "[sim][responder][case5][C9-92][C9-93][C9-94][9.7.4.1.6]") {
    struct Row {
        wire::Opcode op;
        uint32_t payload, total;
    };
    SECTION("at the start of a message") {
        for (const Row& row :
             {Row{RcWriteFirst, 1023, 3000}, Row{RcWriteFirst, 1025, 3000}, Row{RcWriteFirst, 1024, 1024},
              Row{RcWriteOnly, 1025, 1025}, Row{RcWriteOnly, 100, 101}, Row{RcWriteOnly, 101, 100},
              Row{RcWriteFirst, 1024, 0x80000001u}, Row{RcSendFirst, 1023, 0}, Row{RcSendFirst, 0, 0}}) {
            Probe p;
            p.e.receive(buffer(8000));
            const bool send = row.op == RcSendFirst;
            const Packets out = p.write(row.op, kPsn, row.payload, row.total);
            CAPTURE(static_cast<int>(row.op), row.payload, row.total);
            check_answer(out, kPsn, kNakInvalid);
            CHECK(p.e.qp.state() == QpState::Err);
            REQUIRE(p.e.receives.size() == 1);
            CHECK(p.e.receives[0].status == (send ? WcStatus::RemInvReqErr : WcStatus::WrFlushErr));
        }
    }
    SECTION("behind FIRST") {
        for (const Row& row : {Row{RcWriteMiddle, 1023, 0}, Row{RcWriteMiddle, 0, 0}, Row{RcWriteLast, 0, 0},
                               Row{RcWriteLast, 1024, 0}, Row{RcWriteLast, 977, 0}, Row{RcWriteLast, 975, 0}}) {
            Probe p;
            p.write(RcWriteFirst, kPsn, 1024, 2000);
            CAPTURE(static_cast<int>(row.op), row.payload);
            check_refused(p, p.inject(row.op, kPsn + 1, {}, row.payload), kPsn + 1, kNakInvalid, AsyncEvent::QpReqErr);
        }
    }
    SECTION("a WRITE with more packets than its length") {
        Probe p;
        p.write(RcWriteFirst, kPsn, 1024, 2048);
        check_refused(p, p.inject(RcWriteMiddle, kPsn + 1, {}, 1024), kPsn + 1, kNakInvalid, AsyncEvent::QpReqErr);
    }
    SECTION("a READ of more than 2^31 bytes") {
        Probe p;
        check_refused(p, p.read(kPsn, 0, 0x80000001u), kPsn, kNakInvalid, AsyncEvent::QpReqErr);
    }
}

TEST_CASE("opcodes out of sequence", "[sim][responder][9.7.4.1.2]") {
    struct Row {
        std::vector<wire::Opcode> begin;
        wire::Opcode then;
    };
    for (const Row& row :
         {Row{{}, RcSendMiddle}, Row{{}, RcSendLast}, Row{{}, RcWriteMiddle}, Row{{}, RcWriteLast},
          Row{{}, RcWriteLastImm}, Row{{RcWriteFirst}, RcSendMiddle}, Row{{RcWriteFirst}, RcSendLast},
          Row{{RcWriteFirst}, RcWriteFirst}, Row{{RcWriteFirst}, RcWriteOnly}, Row{{RcWriteFirst}, RcSendOnly},
          Row{{RcWriteFirst}, RcReadRequest}, Row{{RcWriteFirst}, RcFetchAdd}, Row{{RcSendFirst}, RcWriteMiddle},
          Row{{RcSendFirst}, RcReadRequest}, Row{{RcSendFirst}, RcSendOnly}}) {
        Probe p;
        p.e.receive(buffer(8000));
        uint32_t psn = kPsn;
        for (const auto op : row.begin) p.write(op, psn++, 1024, 4096);
        CAPTURE(static_cast<int>(row.then));
        check_answer(p.inject(row.then, psn, {}, wire::opcode_info(row.then).has_payload ? 1024 : 0), psn, kNakInvalid);
        CHECK(p.e.qp.state() == QpState::Err);
        const bool in_send = !row.begin.empty() && row.begin[0] == RcSendFirst;
        REQUIRE(p.e.receives.size() == 1);
        CHECK(p.e.receives[0].status == (in_send ? WcStatus::RemInvReqErr : WcStatus::WrFlushErr));
        CHECK(p.e.events.size() == (in_send ? 0 : 1));
    }
}

TEST_CASE("keys, rights and bounds", "[sim][responder][case8][9.7.4.1.5][10.6.3][9.9.3][C9-87]") {
    PairOptions o;
    Probe p(o);
    const auto region = [&](uint32_t key, uint32_t pd, uint32_t access) {
        memory::Region r;
        r.key = key;
        r.pd = pd;
        r.access = access;
        r.iova = r.va = kMemoryBase;
        r.length = 0x2000;
        r.space = 1;
        p.e.keys.insert(r);
    };
    region(0x201, kPd, access_flags::kLocalWrite | access_flags::kRemoteRead);
    region(0x301, kPd + 1, access_flags::kLocalWrite | access_flags::kRemoteRead | access_flags::kRemoteWrite);
    region(0x401, kPd, access_flags::kLocalWrite | access_flags::kRemoteRead | access_flags::kRemoteWrite);
    SECTION("unknown rkey, WRITE") {
        check_refused(p, p.write(RcWriteOnly, kPsn, 4, 4, 0, 0x999), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("unknown rkey, READ") {
        check_refused(p, p.read(kPsn, 0, 4, 0x999), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("right missing, WRITE") {
        check_refused(p, p.write(RcWriteOnly, kPsn, 4, 4, 0, 0x201), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("other PD") {
        check_refused(p, p.write(RcWriteOnly, kPsn, 4, 4, 0, 0x301), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("past the end, WRITE") {
        check_refused(p, p.write(RcWriteOnly, kPsn, 8, 8, 0x1ffc, 0x401), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("past the end, whole of a long WRITE at its first packet") {
        check_refused(p, p.write(RcWriteFirst, kPsn, 1024, 0x2001, 0, 0x401), kPsn, kNakAccess,
                      AsyncEvent::QpAccessErr);
    }
    SECTION("before the start") {
        check_refused(p, p.write(RcWriteOnly, kPsn, 8, 8, static_cast<uint64_t>(-4), 0x401), kPsn, kNakAccess,
                      AsyncEvent::QpAccessErr);
    }
    SECTION("past the end, READ") {
        check_refused(p, p.read(kPsn, 0x1000, 0x1001, 0x401), kPsn, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("unaligned atomic") {
        check_refused(p, p.fetch_add(kPsn, 4, 1), kPsn, kNakInvalid, AsyncEvent::QpReqErr);
    }
    SECTION("region deregistered in the middle of a WRITE") {
        p.write(RcWriteFirst, kPsn, 1024, 3000, 0, 0x401);
        p.e.keys.remove(0x401);
        check_refused(p, p.inject(RcWriteMiddle, kPsn + 1, {}, 1024), kPsn + 1, kNakAccess, AsyncEvent::QpAccessErr);
    }
}

TEST_CASE("rights of the QP", "[sim][responder][9.7.4.1.3]") {
    PairOptions o;
    o.attr.access_flags = 0;
    for (int op = 0; op < 4; ++op) {
        Probe p(o);
        const Packets out = op == 0   ? p.write(RcWriteOnly, kPsn, 4, 4)
                            : op == 1 ? p.read(kPsn, 0, 4)
                            : op == 2 ? p.write(RcAtomicWrite, kPsn, 8, 8)
                                      : p.fetch_add(kPsn, 0, 1);
        check_refused(p, out, kPsn, kNakInvalid, AsyncEvent::QpReqErr);
    }
}

TEST_CASE("unsupported operations are invalid requests", "[sim][responder][9.7.4.1.3][9.4.1.1.3]") {
    Probe flushed;
    check_refused(flushed, flushed.inject(RcFlush, kPsn), kPsn, kNakInvalid, AsyncEvent::QpReqErr);
    Probe p;
    CHECK(p.inject(UcWriteOnly, kPsn, {}, 0).empty());
    CHECK(p.e.qp.state() == QpState::Rts);
}

TEST_CASE("what an ATOMIC WRITE must be", "[sim][responder][A19]") {
    const auto refused = [](Probe& p, uint32_t payload, uint32_t total, uint64_t offset, uint8_t nak, AsyncEvent event, uint32_t rkey = kKey) {
        check_refused(p, p.write(RcAtomicWrite, kPsn, payload, total, offset, rkey), kPsn, nak, event);
    };
    for (const uint32_t bytes : {0u, 4u, 7u, 9u, 16u}) {
        Probe p;
        refused(p, bytes, bytes, 64, kNakInvalid, AsyncEvent::QpReqErr);
    }
    Probe longer;
    refused(longer, 8, 16, 64, kNakInvalid, AsyncEvent::QpReqErr);
    Probe unaligned;
    refused(unaligned, 8, 8, 68, kNakInvalid, AsyncEvent::QpReqErr);
    Probe stranger;
    refused(stranger, 8, 8, 64, kNakAccess, AsyncEvent::QpAccessErr, 0x999);
    Probe readonly;
    memory::Region r = *readonly.e.keys.find(kKey);
    r.access = access_flags::kLocalWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic;
    readonly.e.keys.insert(r);
    refused(readonly, 8, 8, 64, kNakAccess, AsyncEvent::QpAccessErr);
    PairOptions o;
    o.attr.max_dest_rd_atomic = 0;
    Probe none(o);
    refused(none, 8, 8, 64, kNakInvalid, AsyncEvent::QpReqErr);
}

TEST_CASE("a READ at depth 0 is an invalid request", "[sim][responder][case27][9.7.4.1.3]") {
    PairOptions o;
    o.attr.max_dest_rd_atomic = 0;
    Probe p(o);
    check_refused(p, p.read(kPsn, 0, 4), kPsn, kNakInvalid, AsyncEvent::QpReqErr);
}

TEST_CASE("a SEND longer than the receive", "[sim][responder][9.7.4.1.6]") {
    Probe p;
    p.e.receive(buffer(1500));
    p.e.receive(buffer(1500));
    p.inject(RcSendFirst, kPsn, {}, 1024);
    check_answer(p.inject(RcSendLast, kPsn + 1, {}, 477), kPsn + 1, kNakInvalid);
    CHECK(p.e.qp.state() == QpState::Err);
    REQUIRE(p.e.receives.size() == 2);
    CHECK(p.e.receives[0].status == WcStatus::LocLenErr);
    CHECK(p.e.receives[1].status == WcStatus::WrFlushErr);
    CHECK(p.e.events.empty());  // the receive tells
}

TEST_CASE("a receive buffer that cannot be written", "[sim][responder][9.7.5.2.6]") {
    Probe p;
    SECTION("bad lkey") {
        p.e.receive({{kMemoryBase, 100, 0x999}});
    }
    SECTION("the placement fails") {
        p.e.receive(buffer(100));
        p.e.memory.fault_from = kMemoryBase + 0x8000;
        p.e.memory.fault_to = kMemoryBase + 0x9000;
    }
    check_answer(p.write(RcWriteOnly, kPsn, 4, 4), kPsn, kAck);
    check_answer(p.inject(RcSendOnly, kPsn + 1, {}, 10), kPsn + 1, kNakOperation);
    CHECK(p.e.qp.state() == QpState::Err);
    REQUIRE(p.e.receives.size() == 1);
    CHECK(p.e.receives[0].status == WcStatus::LocProtErr);
}

TEST_CASE("a placement that fails late is NAKed at its own PSN; nothing behind it is acknowledged",
          "[sim][responder][9.7.5.2.6]") {
    Probe p;
    p.e.memory.slowest = kMillisecond;
    p.e.memory.fault_from = kMemoryBase + 0x2000;
    p.e.memory.fault_to = kMemoryBase + 0x2001;
    p.e.receive(buffer(100));
    Packets all;
    const auto add = [&](const Packets& more) { all.insert(all.end(), more.begin(), more.end()); };
    add(p.write(RcWriteOnly, kPsn, 4, 4, 0x1000));
    add(p.write(RcWriteOnly, kPsn + 1, 4, 4, 0x2000));
    add(p.inject(RcSendOnly, kPsn + 2, {}, 10));
    add(p.read(kPsn + 3, 0, 10));
    for (int i = 0; i < 10; ++i) {
        p.wait(kMillisecond);
        add(p.poll());
    }
    REQUIRE(!all.empty());
    const Captured nak = all.back();
    all.pop_back();
    CHECK(nak.psn() == kPsn + 1);
    CHECK(int{nak.syndrome()} == int{kNakOperation});
    for (const auto& c : all) CHECK(c.psn() == kPsn);
    CHECK(p.e.qp.state() == QpState::Err);
    CHECK(p.e.events == std::vector{AsyncEvent::QpFatal});
    REQUIRE(p.e.receives.size() == 1);
    CHECK(p.e.receives[0].status == WcStatus::WrFlushErr);
}

TEST_CASE("what is owed for earlier requests leaves before a NAK", "[sim][responder][9.7.5.1.8][9.9.3]") {
    Probe p;
    p.e.turn_bytes = 1;
    p.e.memory.slowest = kMillisecond;
    Packets all;
    const auto add = [&](const Packets& more) { all.insert(all.end(), more.begin(), more.end()); };
    add(p.write(RcWriteOnly, kPsn, 4, 4, 0x1000));
    add(p.read(kPsn + 1, 0, 3000));
    add(p.write(RcWriteOnly, kPsn + 4, 4, 4, 0, 0x999));
    CHECK(all.empty());
    p.wait(2 * kMillisecond);
    add(p.poll());
    REQUIRE(all.size() == 4);
    CHECK(all[0].opcode() == RcReadResponseFirst);
    CHECK(all[2].opcode() == RcReadResponseLast);
    CHECK(int{all[3].syndrome()} == int{kNakAccess});
    CHECK(all[3].psn() == kPsn + 4);
}

TEST_CASE("a READ from memory deregistered under way is NAKed", "[sim][responder][case12]") {
    Probe p;
    p.e.memory.slowest = kMillisecond;
    SECTION("deregistered") {
        p.write(RcWriteOnly, kPsn, 4, 4);
        p.read(kPsn + 1, 0, 3000);
        p.e.keys.remove(kKey);
        p.wait(2 * kMillisecond);
        check_refused(p, p.poll(), kPsn + 1, kNakAccess, AsyncEvent::QpAccessErr);
    }
    SECTION("unmapped: the gather fails in the middle") {
        p.e.memory.fault_from = kMemoryBase + 2048;
        p.e.memory.fault_to = kMemoryBase + 2049;
        const Packets out = p.read(kPsn, 0, 3000);
        REQUIRE(out.size() == 3);
        CHECK(out[1].opcode() == RcReadResponseMiddle);
        CHECK(out[2].psn() == kPsn + 2);
        CHECK(int{out[2].syndrome()} == int{kNakOperation});
        CHECK(p.e.qp.state() == QpState::Err);
    }
    SECTION("a repetition after rightful deregistration does not end the connection") {
        CHECK(p.read(kPsn, 0, 100).size() == 1);
        p.e.keys.remove(kKey);
        check_answer(p.read(kPsn, 0, 100), kPsn, kNakAccess);
        CHECK(p.e.qp.state() == QpState::Rts);
    }
    SECTION("nor does it cost what came behind it the ACK") {
        memory::Region other = *p.e.keys.find(kKey);
        other.key = 0x201;
        p.e.keys.insert(other);
        p.e.memory.slowest = 0;
        CHECK(p.read(kPsn, 0, 100, 0x201).size() == 1);
        p.e.keys.remove(0x201);
        wire::ExtHeaders ext;
        ext.reth = {kMemoryBase, 0x201, 100};
        p.hand_in(RcReadRequest, kPsn, ext);
        const Packets out = p.write(RcWriteOnly, kPsn + 1, 4, 4);
        REQUIRE(out.size() == 2);
        check_answer({out[0]}, kPsn, kNakAccess);
        check_answer({out[1]}, kPsn + 1, kAck);
        CHECK(p.poll().empty());
    }
}
