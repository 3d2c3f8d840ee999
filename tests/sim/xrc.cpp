// SPDX-License-Identifier: BSD-3-Clause
// XRC in virtual time: an initiator on one side, a target on the other. It is RC in another class of opcodes, in one
// direction, with keys and receives of the shared receive queue that the packet names. IBTA annex A14.
#include <catch2/catch.hpp>

#include "tests/sim/qp_pair.h"

using namespace rocemu;
using namespace rocemu::sim;
using namespace rocemu::transport;
using stats::Counter;
using wire::Opcode;

namespace {

constexpr uint64_t kSource = kMemoryBase, kTarget = kMemoryBase + 0x100000;

PairOptions xrc(uint64_t seed = 1) {
    PairOptions o;
    o.seed = seed;
    o.config.type = QpType::XrcSend;
    o.config.reorder_packets = 32;
    o.type_b = QpType::XrcRecv;
    return o;
}

struct Xrc {
    explicit Xrc(const PairOptions& o = xrc()) : pair(o) {
        for (uint64_t i = 0; i < 0x10000; ++i)
            *pair.a.memory.at(kSource + i) = static_cast<std::byte>(i * 7 + (i >> 8) + 1);
        pair.ab.filter = [this](const wire::PacketView& p) {
            all_xrc &= p.op->transport == wire::Transport::Xrc && p.op->has(wire::ext::kXrcEth);
            return Fate::Pass;
        };
        pair.ba.filter = [this](const wire::PacketView& p) {
            all_xrc &= p.op->transport == wire::Transport::Xrc && !p.op->has(wire::ext::kXrcEth);
            return Fate::Pass;
        };
    }
    void post(WrOpcode op, uint32_t length, uint32_t srqn = 0, uint32_t rkey = kKey) {
        PostedSend wr;
        wr.wqe.opcode = op;
        wr.wqe.flags = send_flags::kSignaled;
        wr.wqe.remote_addr = kTarget;
        wr.wqe.rkey = rkey;
        wr.wqe.imm_data = 0x04030201;
        wr.wqe.srqn = srqn;
        wr.wqe.compare_add = 5;
        wr.sges = {{kSource, length, kKey}};
        pair.a.send(std::move(wr));
    }
    void receive() { pair.b.receive({{kTarget, 0x10000, kKey}}); }
    // A packet of a message that no initiator of ours would send.
    void inject(Opcode op, uint32_t srqn, uint32_t psn, uint32_t bytes) {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(op);
        bth.dest_qp = pair.b.qp.config().qpn;
        bth.psn = psn;
        wire::ExtHeaders ext;
        ext.xrceth.srqn = srqn;
        ext.reth = {kTarget, kKey, 4096};
        const std::vector<std::byte> payload(bytes, std::byte{9});
        pair.b.deliver(make_frame(pair.a.headers, bth, ext, payload), pair.now);
    }
    QpPair pair;
    bool all_xrc = true;
};

}  // namespace

TEST_CASE("XRC: every operation and size around the segment borders", "[sim][xrc][A14][case1]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm,
                              WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd, WrOpcode::AtomicCmpAndSwp})
        for (const uint32_t n : {0u, 1u, 3u, 8u, 1023u, 1024u, 1025u, 7171u}) {
            const bool atomic = op == WrOpcode::AtomicFetchAndAdd || op == WrOpcode::AtomicCmpAndSwp;
            if (atomic && n != 8) continue;
            Xrc t;
            CAPTURE(int(op), n);
            const bool answered = atomic || op == WrOpcode::RdmaRead;
            const bool consumes = !answered && op != WrOpcode::RdmaWrite;
            if (answered)
                for (uint32_t i = 0; i < n; ++i) *t.pair.b.memory.at(kTarget + i) = static_cast<std::byte>(3 * i + 1);
            const uint64_t before = [&] {
                uint64_t v;
                std::memcpy(&v, t.pair.b.memory.at(kTarget), 8);
                return v;
            }();
            t.receive();
            t.post(op, n);
            t.pair.settle();
            REQUIRE(t.pair.a.sends.size() == 1);
            CHECK(t.pair.a.sends[0].status == WcStatus::Success);
            REQUIRE(t.pair.b.receives.size() == (consumes ? 1 : 0));
            if (consumes) {
                CHECK(t.pair.b.receives[0].status == WcStatus::Success);
                CHECK(t.pair.b.receives[0].byte_len == n);
            }
            uint64_t result = 0;
            std::memcpy(&result, t.pair.a.memory.at(kSource), 8);
            if (atomic)
                CHECK(result == before);
            else
                CHECK(std::memcmp(t.pair.b.memory.at(kTarget), t.pair.a.memory.at(kSource), n) == 0);
            if (op == WrOpcode::AtomicFetchAndAdd) {
                std::memcpy(&result, t.pair.b.memory.at(kTarget), 8);
                CHECK(result == before + 5);
            }
            CHECK(t.all_xrc);
            CHECK(t.pair.healthy());
        }
}

TEST_CASE("XRC: a request that names no queue of the domain is an invalid RD request", "[sim][xrc][A14]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd}) {
        CAPTURE(int(op));
        Xrc t;
        t.receive();
        t.post(op, 8, kSrqn + 1);
        t.pair.settle();
        REQUIRE(t.pair.a.sends.size() == 1);
        CHECK(t.pair.a.sends[0].status == WcStatus::RemInvRdReqErr);
        CHECK(t.pair.a.qp.state() == QpState::Err);
        CHECK(t.pair.b.qp.state() == QpState::Err);
        CHECK(*t.pair.b.memory.at(kTarget) == std::byte{0});
    }
}

TEST_CASE("XRC: keys are of the PD of the queue that is named", "[sim][xrc][A14][10.6.3]") {
    Xrc t;
    WcStatus expected = WcStatus::RemAccessErr;
    const WrOpcode op = GENERATE(WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd);
    CAPTURE(int(op));
    if (op == WrOpcode::Send) expected = WcStatus::RemOpErr;  // the receive's own lkey
    t.pair.b.srq_pd = kPd + 1;
    t.receive();
    t.post(op, 8);
    t.pair.settle();
    REQUIRE(t.pair.a.sends.size() == 1);
    CHECK(t.pair.a.sends[0].status == expected);
    CHECK(*t.pair.b.memory.at(kTarget) == std::byte{0});
}

TEST_CASE("XRC: a READ is answered with the PD of its request, whatever comes behind it", "[sim][xrc][A14]") {
    Xrc t;
    for (uint32_t i = 0; i < 0x8000; ++i) *t.pair.b.memory.at(kTarget + i) = static_cast<std::byte>(i * 5 + 1);
    t.post(WrOpcode::RdmaRead, 0x8000);
    // A request for a queue of another PD comes before the READ is answered completely.
    uint32_t responses = 0;
    t.pair.ba.filter = [&](const wire::PacketView&) {
        if (++responses == 1) t.pair.b.qp.name_srq(kPd + 1);
        return Fate::Pass;
    };
    t.pair.b.turn_bytes = 1024;
    t.pair.settle();
    CHECK(responses == 32);
    REQUIRE(t.pair.a.sends.size() == 1);
    CHECK(t.pair.a.sends[0].status == WcStatus::Success);
    CHECK(std::memcmp(t.pair.b.memory.at(kTarget), t.pair.a.memory.at(kSource), 0x8000) == 0);
}

TEST_CASE("XRC: all packets of a message name the same queue", "[sim][xrc][A14]") {
    for (const auto& [first, next] : {std::pair{Opcode::XrcSendFirst, Opcode::XrcSendLast},
                                      std::pair{Opcode::XrcWriteFirst, Opcode::XrcWriteMiddle}}) {
        Xrc t;
        t.receive();
        t.inject(first, kSrqn, 0x100, 1024);
        CHECK(t.pair.b.qp.state() == QpState::Rts);
        t.inject(next, kSrqn + 1, 0x101, 1024);
        t.pair.settle();
        CHECK(t.pair.b.qp.state() == QpState::Err);
        CHECK(*t.pair.b.memory.at(kTarget + 1024) == std::byte{0});
    }
}

TEST_CASE("XRC: a target sends nothing, an initiator takes nothing", "[sim][xrc][A14]") {
    Xrc t;
    // Requests at an initiator, responses at a target, and the opcodes of RC at both: dropped.
    const uint64_t before = t.pair.b.count(Counter::rx_dropped_in_state);
    t.inject(Opcode::XrcAcknowledge, 0, 0x100, 0);
    t.inject(Opcode::RcWriteOnly, 0, 0x100, 8);
    CHECK(t.pair.b.count(Counter::rx_dropped_in_state) == before + 2);
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(Opcode::XrcWriteOnly);
    bth.dest_qp = t.pair.a.qp.config().qpn;
    bth.psn = 0x200;
    bth.ack_req = true;
    wire::ExtHeaders ext;
    ext.xrceth.srqn = kSrqn;
    ext.reth = {kSource, kKey, 8};
    const std::vector<std::byte> payload(8, std::byte{0});
    t.pair.a.deliver(make_frame(t.pair.b.headers, bth, ext, payload), t.pair.now);
    t.pair.settle();
    CHECK(t.pair.ab.counts.sent == 0);
    CHECK(*t.pair.a.memory.at(kSource) == std::byte{1});
}

TEST_CASE("XRC: on a bad link everything arrives, once and in order", "[sim][xrc][A14]") {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
        CAPTURE(seed);
        Xrc t(xrc(seed));
        t.pair.set_faults({.drop = 0.02, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.02});
        t.pair.b.memory.slowest = 20 * kMicrosecond;
        constexpr uint32_t kMessages = 300;
        for (uint32_t i = 0; i < kMessages; ++i) t.receive();
        uint32_t lengths = 0;
        t.pair.b.on_completion = [&](const Completion& c) {
            CHECK(c.status == WcStatus::Success);
            CHECK(c.byte_len == 1 + (c.wr_id * 37) % 5000);
            ++lengths;
        };
        for (uint32_t i = 0; i < kMessages; ++i) {
            t.post(WrOpcode::Send, 1 + (i * 37) % 5000);
            t.post(WrOpcode::AtomicFetchAndAdd, 8);
            if (i % 7 == 0) t.post(WrOpcode::RdmaRead, 3000);
        }
        t.pair.settle();
        CHECK(lengths == kMessages);
        CHECK(t.pair.a.sends.size() == 2 * kMessages + (kMessages + 6) / 7);
        for (const Completion& c : t.pair.a.sends) CHECK(c.status == WcStatus::Success);
        CHECK(t.all_xrc);
        CHECK(t.pair.healthy());
    }
}
