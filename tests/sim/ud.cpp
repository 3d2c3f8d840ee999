// SPDX-License-Identifier: BSD-3-Clause
// Datagrams in virtual time: what arrives and where, what is dropped and counted, what stops a send queue.
#include <catch2/catch.hpp>

#include "tests/sim/qp_pair.h"

using namespace rocemu;
using namespace rocemu::sim;
using namespace rocemu::transport;
using stats::Counter;

namespace {

constexpr uint32_t kQkey = 0x11111111, kGrh = 40, kQpnB = 0x22;
constexpr uint64_t kSource = kMemoryBase, kTarget = kMemoryBase + 0x10000;

PairOptions datagrams() {
    PairOptions o;
    o.config.type = QpType::Ud;
    o.config.max_path_mtu = 3;
    o.attr.qkey = kQkey;
    return o;
}

struct Ud {
    explicit Ud(const PairOptions& o = datagrams()) : pair(o) {
        for (uint64_t i = 0; i < 0x8000; ++i) *pair.a.memory.at(kSource + i) = static_cast<std::byte>(i * 7 + (i >> 8));
    }
    void send(uint32_t length, WrOpcode op = WrOpcode::Send, uint32_t qkey = kQkey, uint32_t key = kKey) {
        PostedSend wr;
        wr.wqe.opcode = op;
        wr.wqe.flags = send_flags::kSignaled;
        wr.wqe.ah = 1;
        wr.wqe.dest_qpn = kQpnB;
        wr.wqe.rkey = qkey;
        wr.wqe.imm_data = 0x04030201;
        wr.sges = {{kSource, length, key}};
        pair.a.send(std::move(wr));
    }
    void receive(uint32_t length, uint64_t at = kTarget) { pair.b.receive({{at, length, kKey}}); }
    // Does the message with these bytes lie behind its 40 bytes?
    bool arrived(uint32_t length, uint64_t at = kTarget) {
        return std::memcmp(pair.b.memory.at(at + kGrh), pair.a.memory.at(kSource), length) == 0;
    }
    QpPair pair;
};

}  // namespace

TEST_CASE("datagrams of every size arrive behind 40 bytes", "[sim][ud][9.8.3][case1][case33]") {
    for (const uint32_t n : {0u, 1u, 2u, 3u, 4u, 64u, 1023u, 1024u}) {
        Ud t;
        CAPTURE(n);
        std::memset(t.pair.b.memory.at(kTarget), 0x66, 2048);
        t.receive(kGrh + n);
        t.send(n, WrOpcode::SendWithImm);
        t.pair.settle();
        REQUIRE(t.pair.b.receives.size() == 1);
        const Completion& c = t.pair.b.receives[0];
        CHECK(c.status == WcStatus::Success);
        CHECK(c.byte_len == kGrh + n);
        CHECK(c.wc_flags == (wc_flags::kGrh | wc_flags::kWithImm));
        CHECK(c.imm_data == 0x04030201);
        CHECK(c.src_qp == 0x11);
        CHECK(c.sl == 2);  // IPv4, as UCX reads it
        CHECK(t.arrived(n));
        // Nothing in front of the IPv4 header looks like an IPv6 one; the header is the one of the frame.
        CHECK(*t.pair.b.memory.at(kTarget) == std::byte{0});
        CHECK(*t.pair.b.memory.at(kTarget + 20) == std::byte{0x45});
        CHECK(*t.pair.b.memory.at(kTarget + kGrh + n) == std::byte{0x66});
        REQUIRE(t.pair.a.sends.size() == 1);
        CHECK(t.pair.a.sends[0].status == WcStatus::Success);
        CHECK(t.pair.healthy());
    }
}

TEST_CASE("a Q_Key with the high bit set means the QP's own", "[sim][ud][10.2.5][case4]") {
    Ud t;
    t.receive(4096);
    t.pair.ab.filter = [](const wire::PacketView& v) {
        CHECK(v.deth().qkey == kQkey);
        CHECK_FALSE(v.bth.ack_req);  // nobody answers
        return Fate::Pass;
    };
    t.send(8, WrOpcode::Send, 0x80000000);
    t.pair.settle();
    CHECK(t.pair.b.receives.size() == 1);
}

TEST_CASE("what a datagram QP cannot take is dropped and counted", "[sim][ud][9.8.3.1][case13]") {
    Ud t;
    SECTION("wrong Q_Key") {
        t.receive(4096);
        t.send(8, WrOpcode::Send, kQkey + 1);
        t.pair.settle();
        CHECK(t.pair.b.count(Counter::rx_qkey_mismatch) == 1);
    }
    SECTION("no receive") {
        t.send(8);
        t.pair.settle();
        CHECK(t.pair.b.count(Counter::ud_no_buffer_drops) == 1);
        t.receive(4096);
    }
    SECTION("receive without room for the 40 bytes; it stays for a smaller message") {
        t.receive(kGrh + 7);
        t.send(8);
        t.pair.settle();
        CHECK(t.pair.b.count(Counter::ud_no_buffer_drops) == 1);
    }
    CHECK(t.pair.b.receives.empty());
    CHECK(t.pair.b.qp.state() == QpState::Rts);
    t.send(7);
    t.pair.settle();
    REQUIRE(t.pair.b.receives.size() == 1);
    CHECK(t.pair.b.receives[0].status == WcStatus::Success);
    CHECK(t.arrived(7));
    CHECK(t.pair.a.sends.size() == 2);  // the sender never learns of it
}

TEST_CASE("an error stops the send queue, not the receive side", "[sim][ud][10.3.1.6]") {
    Ud t;
    for (int i = 0; i < 4; ++i) t.receive(4096);
    t.send(8);
    WcStatus expected{};
    SECTION("longer than the MTU") {
        t.send(1025);
        expected = WcStatus::LocLenErr;
    }
    SECTION("an operation that datagrams do not have") {
        t.send(8, WrOpcode::RdmaWrite);
        expected = WcStatus::LocQpOpErr;
    }
    SECTION("a key that is not there") {
        t.send(8, WrOpcode::Send, kQkey, kKey + 1);
        expected = WcStatus::LocProtErr;
    }
    SECTION("memory that is not there") {
        t.pair.a.memory.fault_from = kSource + 100;
        t.pair.a.memory.fault_to = kSource + 101;
        t.send(200);
        expected = WcStatus::LocProtErr;
    }
    t.send(8);
    t.pair.settle();
    REQUIRE(t.pair.a.sends.size() == 3);
    CHECK(t.pair.a.sends[0].status == WcStatus::Success);
    CHECK(t.pair.a.sends[1].status == expected);
    CHECK(t.pair.a.sends[2].status == WcStatus::WrFlushErr);
    CHECK(t.pair.a.qp.state() == QpState::Sqe);
    CHECK(t.pair.b.receives.size() == 1);
    // IBTA 10.3.1.6: back to RTS without a reset.
    t.pair.a.memory.fault_to = 0;
    t.pair.a.set_state(QpState::Rts);
    t.send(8);
    t.pair.settle();
    REQUIRE(t.pair.a.sends.size() == 4);
    CHECK(t.pair.a.sends[3].status == WcStatus::Success);
    CHECK(t.pair.b.receives.size() == 2);
    CHECK(t.pair.healthy());
}

TEST_CASE("a receive whose memory is wrong ends the QP with its error", "[sim][ud][9.9.3]") {
    Ud t;
    SECTION("a key that is not there") { t.pair.b.receive({{kTarget, 4096, kKey + 1}}); }
    SECTION("memory that is not there") {
        t.pair.b.memory.fault_from = kTarget + kGrh;
        t.pair.b.memory.fault_to = kTarget + kGrh + 1;
        t.receive(4096);
    }
    t.receive(4096);
    t.send(8);
    t.pair.settle();
    REQUIRE(t.pair.b.receives.size() == 2);
    CHECK(t.pair.b.receives[0].status == WcStatus::LocProtErr);
    CHECK(t.pair.b.receives[1].status == WcStatus::WrFlushErr);
    CHECK(t.pair.b.qp.state() == QpState::Err);
}

TEST_CASE("on a bad link datagrams arrive whole and once each copy, or not at all", "[sim][ud]") {
    PairOptions o = datagrams();
    o.seed = 5;
    o.config.recv_window_wqes = 1024;
    o.config.dma_window = 2048;
    Ud t(o);
    t.pair.set_faults({.drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1});
    t.pair.b.memory.slowest = 30 * kMicrosecond;
    constexpr uint32_t kMessages = 500;
    for (uint32_t i = 0; i < 2 * kMessages; ++i) t.receive(4096, kTarget + 4096 * (i % 512));
    t.pair.b.on_completion = [&](const Completion& c) {
        if (!c.is_recv) return;
        CHECK(c.status == WcStatus::Success);
        CHECK(t.arrived(c.byte_len - kGrh, kTarget + 4096 * (c.wr_id % 512)));
    };
    for (uint32_t i = 0; i < kMessages; ++i) t.send(i % 1025);
    t.pair.settle();
    const auto& counts = t.pair.ab.counts;
    CHECK(t.pair.a.sends.size() == kMessages);
    CHECK(counts.dropped > 0);
    CHECK(t.pair.b.icrc_drops > 0);
    // A flipped bit of a field outside the ICRC does no harm, one in the headers below is dropped by the parser.
    const uint64_t arrived = counts.delivered - t.pair.b.icrc_drops - t.pair.b.parse_drops;
    CHECK(t.pair.b.receives_done == arrived);
    CHECK(t.pair.healthy());
}
