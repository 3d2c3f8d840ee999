// SPDX-License-Identifier: BSD-3-Clause
// Unreliable connections in virtual time: whole messages arrive, broken ones vanish, nobody answers.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;
using namespace rocemu::transport;
using stats::Counter;

namespace {

constexpr uint64_t kSource = kMemoryBase, kTarget = kMemoryBase + 0x100000;

PairOptions unreliable(uint64_t seed = 1) {
    PairOptions o;
    o.seed = seed;
    o.config.type = QpType::Uc;
    return o;
}

struct Uc {
    explicit Uc(const PairOptions& o = unreliable()) : pair(o) {
        for (uint64_t i = 0; i < 0x10000; ++i)
            *pair.a.memory.at(kSource + i) = static_cast<std::byte>(i * 7 + (i >> 8) + 1);
    }
    void post(WrOpcode op, uint32_t length, uint32_t rkey = kKey, uint64_t from = kSource) {
        PostedSend wr;
        wr.wqe.opcode = op;
        wr.wqe.flags = send_flags::kSignaled;
        wr.wqe.remote_addr = kTarget;
        wr.wqe.rkey = rkey;
        wr.wqe.imm_data = 0x04030201;
        wr.sges = {{from, length, kKey}};
        pair.a.send(std::move(wr));
    }
    void receive(uint32_t length = 0x10000, uint64_t at = kTarget) { pair.b.receive({{at, length, kKey}}); }
    bool arrived(uint32_t length, uint64_t at = kTarget, uint64_t from = kSource) {
        return std::memcmp(pair.b.memory.at(at), pair.a.memory.at(from), length) == 0;
    }
    // Loses the packet with this number among those that are sent.
    void lose(uint32_t number) {
        pair.ab.filter = [this, number](const wire::PacketView&) { return seen++ == number ? Fate::Drop : Fate::Pass; };
    }
    QpPair pair;
    uint32_t seen = 0;
};

}  // namespace

TEST_CASE("UC: every operation and size around the segment borders", "[sim][uc][9.8.2][case1]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm})
        for (const uint32_t n : {0u, 1u, 3u, 4u, 1023u, 1024u, 1025u, 2048u, 7171u}) {
            Uc t;
            CAPTURE(int(op), n);
            const bool consumes = op != WrOpcode::RdmaWrite;
            const bool imm = op == WrOpcode::SendWithImm || op == WrOpcode::RdmaWriteWithImm;
            t.receive();
            t.post(op, n);
            t.pair.settle();
            CHECK(t.arrived(n));
            REQUIRE(t.pair.a.sends.size() == 1);
            CHECK(t.pair.a.sends[0].status == WcStatus::Success);
            REQUIRE(t.pair.b.receives.size() == (consumes ? 1 : 0));
            if (consumes) {
                const Completion& c = t.pair.b.receives[0];
                CHECK(c.status == WcStatus::Success);
                CHECK(c.byte_len == n);
                CHECK(c.opcode == (op == WrOpcode::RdmaWriteWithImm ? WcOpcode::RecvRdmaWithImm : WcOpcode::Recv));
                CHECK(c.wc_flags == (imm ? wc_flags::kWithImm : 0));
                CHECK(c.src_qp == 0x11);
            }
            CHECK(t.pair.ba.counts.sent == 0);  // no acknowledgement, whatever happens
            CHECK(t.pair.healthy());
        }
}

TEST_CASE("UC: windows are bound and invalidated behind what was posted before", "[sim][uc][10.6.7.2]") {
    constexpr uint32_t kBindable = 0x5500, kWindow = 0x6600;
    Uc t;
    memory::Region r = *t.pair.b.keys.find(kKey);
    r.key = kBindable;
    r.access |= access_flags::kMwBind;
    t.pair.b.keys.insert(r);
    memory::Region w;
    w.key = kWindow;
    w.pd = r.pd;
    w.kind = memory::KeyKind::WindowType2;
    t.pair.b.keys.insert(w);
    const auto local = [&](WrOpcode op) {
        PostedSend wr;
        wr.wqe.opcode = op;
        wr.wqe.flags = send_flags::kSignaled;
        wr.wqe.rkey = kWindow;
        wr.wqe.imm_data = op == WrOpcode::BindMw ? kBindable : kWindow;
        wr.wqe.remote_addr = kTarget;
        wr.wqe.compare_add = 0x1000;
        wr.wqe.swap = access_flags::kRemoteWrite;
        t.pair.b.send(std::move(wr));
    };
    t.post(WrOpcode::RdmaWrite, 5000, kWindow);
    t.pair.settle();
    CHECK(!t.arrived(100));  // there is no window yet: dropped
    t.pair.b.send(WrOpcode::RdmaWrite, {{kSource, 3000, kKey}}, kTarget, kKey);
    local(WrOpcode::BindMw);
    t.pair.settle();
    REQUIRE(t.pair.b.sends.size() == 2);
    CHECK(t.pair.b.sends[0].opcode == WcOpcode::RdmaWrite);
    CHECK(t.pair.b.sends[1].opcode == WcOpcode::BindMw);
    CHECK(t.pair.b.sends[1].status == WcStatus::Success);
    t.post(WrOpcode::RdmaWrite, 4000, kWindow);
    t.pair.settle();
    CHECK(t.arrived(4000));
    local(WrOpcode::LocalInv);
    t.pair.settle();
    REQUIRE(t.pair.b.sends.size() == 3);
    CHECK(t.pair.b.sends[2].opcode == WcOpcode::LocalInv);
    CHECK(t.pair.b.sends[2].status == WcStatus::Success);
    t.post(WrOpcode::RdmaWrite, 8, kWindow, kSource + 4000);
    t.pair.settle();
    CHECK(!t.arrived(8, kTarget, kSource + 4000));
    local(WrOpcode::LocalInv);  // it is none any more
    t.pair.b.send(WrOpcode::RdmaWrite, {{kSource, 8, kKey}}, kTarget, kKey);
    t.pair.settle();
    REQUIRE(t.pair.b.sends.size() == 5);
    CHECK(t.pair.b.sends[3].status == WcStatus::MwBindErr);
    CHECK(t.pair.b.sends[4].status == WcStatus::WrFlushErr);
    CHECK(t.pair.b.qp.state() == QpState::Sqe);
}

TEST_CASE("UC: a message that lost a packet vanishes and its receive serves the next", "[sim][uc][9.8.2.2.1]") {
    for (const WrOpcode op : {WrOpcode::SendWithImm, WrOpcode::RdmaWriteWithImm})
        for (uint32_t lost = 0; lost < 4; ++lost) {
            CAPTURE(int(op), lost);
            Uc t;
            t.receive();
            t.receive();
            t.lose(lost);
            t.post(op, 4000, kKey, kSource + 0x8000);
            t.post(op, 3000);
            t.pair.settle();
            CHECK(t.pair.a.sends.size() == 2);  // the sender never learns of it
            REQUIRE(t.pair.b.receives.size() == 1);
            CHECK(t.pair.b.receives[0].status == WcStatus::Success);
            CHECK(t.pair.b.receives[0].wr_id == 0);
            CHECK(t.pair.b.receives[0].byte_len == 3000);
            CHECK(t.arrived(3000));
            CHECK(t.pair.b.count(Counter::uc_dropped_messages) >= 1);
            CHECK(t.pair.b.qp.state() == QpState::Rts);
        }
}

TEST_CASE("UC: what cannot be taken is dropped silently", "[sim][uc][9.8.2.2][case5]") {
    Uc t;
    SECTION("no receive") { t.post(WrOpcode::Send, 2000); }
    SECTION("a receive that is too small") {
        t.receive(1999);
        t.post(WrOpcode::Send, 2000);
    }
    SECTION("a WRITE with a wrong key") { t.post(WrOpcode::RdmaWrite, 2000, kKey + 1); }
    t.pair.settle();
    CHECK(t.pair.b.receives.empty());
    CHECK(t.pair.b.count(Counter::uc_dropped_messages) == 1);
    CHECK(t.pair.b.qp.state() == QpState::Rts);
    CHECK(*t.pair.b.memory.at(kTarget + 1999) == std::byte{0});
    t.receive();
    t.post(WrOpcode::Send, 1000);
    t.pair.settle();
    REQUIRE(t.pair.b.receives.size() == 1);
    CHECK(t.pair.b.receives[0].byte_len == 1000);
}

TEST_CASE("UC: lengths that the position does not allow are dropped silently", "[sim][uc][case5][C9-92][C9-94]") {
    struct Row {
        wire::Opcode op;
        uint32_t payload, total;
    };
    for (const Row& row : {Row{wire::Opcode::UcWriteFirst, 1023, 3000}, Row{wire::Opcode::UcWriteFirst, 1024, 1024},
                           Row{wire::Opcode::UcWriteFirst, 1024, 0x80000001u}, Row{wire::Opcode::UcWriteOnly, 1025, 1025},
                           Row{wire::Opcode::UcWriteOnly, 100, 101}, Row{wire::Opcode::UcSendFirst, 1023, 0},
                           Row{wire::Opcode::UcSendFirst, 0, 0}, Row{wire::Opcode::UcSendOnly, 1025, 0}}) {
        Probe p(unreliable());
        p.e.receive({{kTarget, 4096, kKey}});
        wire::ExtHeaders ext;
        ext.reth = {kTarget, kKey, row.total};
        CAPTURE(static_cast<int>(row.op), row.payload, row.total);
        CHECK(p.inject(row.op, 0x100, ext, row.payload, false).empty());
        CHECK(p.e.count(Counter::uc_dropped_messages) == 1);
        CHECK(p.e.qp.state() == QpState::Rts);
        CHECK(p.e.receives.empty());
        // Its receive serves the next.
        CHECK(p.inject(wire::Opcode::UcSendOnly, 0x101, {}, 8, false).empty());
        CHECK(p.e.receives.size() == 1);
    }
}

TEST_CASE("UC: WRITEs of length 0 with any key and address", "[sim][uc][case7][C9-88]") {
    Probe p(unreliable());
    wire::ExtHeaders ext;
    ext.reth = {1, 0xdeadbeef, 0};
    CHECK(p.inject(wire::Opcode::UcWriteOnly, 0x100, ext, 0, false).empty());
    p.e.receive({{kTarget, 16, kKey}});
    CHECK(p.inject(wire::Opcode::UcWriteOnlyImm, 0x101, ext, 0, false).empty());
    CHECK(p.e.receives.size() == 1);
    CHECK(p.e.count(Counter::uc_dropped_messages) == 0);
}

TEST_CASE("UC: READs and atomics do not exist", "[sim][uc][11.4.1.1][case22]") {
    Uc t;
    t.post(WrOpcode::RdmaRead, 8);
    t.pair.settle();
    REQUIRE(t.pair.a.sends.size() == 1);
    CHECK(t.pair.a.sends[0].status == WcStatus::LocQpOpErr);
    CHECK(t.pair.a.qp.state() == QpState::Sqe);
}

TEST_CASE("UC: on a bad link messages arrive whole or not at all", "[sim][uc][9.8.2.2.1]") {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(seed);
        Uc t(unreliable(seed));
        t.pair.set_faults({.drop = 0.05, .duplicate = 0.05, .reorder = 0.05, .corrupt = 0.05});
        t.pair.b.memory.slowest = 30 * kMicrosecond;
        constexpr uint32_t kMessages = 400;
        for (uint32_t i = 0; i < 2 * kMessages; ++i) t.receive(0x10000, kTarget + 0x8000 * (i % 64));
        uint64_t whole = 0;
        t.pair.b.on_completion = [&](const Completion& c) {
            if (!c.is_recv) return;
            CHECK(c.status == WcStatus::Success);
            ++whole;
            CHECK(t.arrived(c.byte_len, kTarget + 0x8000 * (c.wr_id % 64)));
        };
        for (uint32_t i = 0; i < kMessages; ++i) t.post(WrOpcode::Send, 1 + i * 20);
        t.pair.settle();
        CHECK(t.pair.a.sends.size() == kMessages);
        CHECK(whole > kMessages / 4);
        CHECK(t.pair.b.count(Counter::uc_dropped_messages) > 0);
        CHECK(t.pair.healthy());
    }
}
