// SPDX-License-Identifier: BSD-3-Clause
// Packets that overtake others: kept within a distance and a time, and what it is for: goodput on paths that reorder.
// IBTA volume 1, 9.7.5.1.3 (what a gap costs otherwise).
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"
#include "tests/sim/workload.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x200, kTheirs = 0x100;
constexpr uint8_t kNakSequence = 0x60;
constexpr Duration kTime = 50 * kMicrosecond;

PairOptions tolerant(uint32_t packets) {
    PairOptions o;
    o.config.reorder_packets = packets;
    o.config.reorder_time = kTime;
    return o;
}
std::vector<Sge> local(uint32_t bytes, uint64_t offset = 0x1000) {
    return {{kMemoryBase + offset, bytes, kKey}};
}
constexpr uint64_t kRemote = kMemoryBase + 0x10000;

Packets response(Probe& p, wire::Opcode op, uint32_t psn, uint32_t bytes) {
    wire::ExtHeaders ext;
    ext.aeth = {0x1f, 1};
    return p.inject(op, psn, ext, bytes);
}

}  // namespace

TEST_CASE("requests that come early are kept and executed in their turn", "[sim][responder][reorder]") {
    Probe p(tolerant(8));
    CHECK(p.write(RcWriteFirst, kTheirs, 1024, 5 * 1024).size() == 1);
    CHECK(p.inject(RcWriteMiddle, kTheirs + 3, {}, 1024).empty());
    CHECK(p.inject(RcWriteMiddle, kTheirs + 2, {}, 1024).empty());
    CHECK(p.inject(RcWriteMiddle, kTheirs + 3, {}, 1024).empty());  // a duplicate of a kept one
    CHECK(p.read(kTheirs + 5, 0, 3000).empty());
    const Packets out = p.inject(RcWriteMiddle, kTheirs + 1, {}, 1024);
    REQUIRE(out.size() == 1);
    CHECK(out[0].psn() == kTheirs + 3);
    CHECK(p.inject(RcWriteLast, kTheirs + 4, {}, 1024).size() >= 3);  // and the READ is answered
    CHECK(p.e.count(Counter::naks_sent) == 0);
    CHECK(p.e.qp.next_deadline() == kNever);
    CHECK(p.e.violations.empty());
}

TEST_CASE("what does not come in time, or is too far behind, is asked for", "[sim][responder][reorder][9.7.5.1.3]") {
    Probe p(tolerant(4));
    p.write(RcWriteOnly, kTheirs, 4, 4);
    SECTION("time") {
        CHECK(p.write(RcWriteOnly, kTheirs + 2, 4, 4).empty());
        CHECK(p.e.qp.next_deadline() == p.now + kTime);
        p.wait(kTime);
    }
    SECTION("distance") {
        CHECK(p.write(RcWriteOnly, kTheirs + 5, 4, 4).empty());
        const Packets nak = p.write(RcWriteOnly, kTheirs + 6, 4, 4);
        REQUIRE(nak.size() == 1);
        CHECK(int{nak[0].syndrome()} == kNakSequence);
        CHECK(nak[0].psn() == kTheirs + 1);
        CHECK(p.e.qp.next_deadline() == kNever);
        return;
    }
    SECTION("the NIC has no room") {
        p.e.keeps = 0;
        const Packets nak = p.write(RcWriteOnly, kTheirs + 2, 4, 4);
        REQUIRE(nak.size() == 1);
        CHECK(int{nak[0].syndrome()} == kNakSequence);
        return;
    }
    const Packets nak = p.poll();
    REQUIRE(nak.size() == 1);
    CHECK(int{nak[0].syndrome()} == kNakSequence);
    CHECK(nak[0].psn() == kTheirs + 1);
    // The peer goes back: what was kept need not come again.
    const Packets ack = p.write(RcWriteOnly, kTheirs + 1, 4, 4);
    REQUIRE(ack.size() == 1);
    CHECK(ack[0].psn() == kTheirs + 2);
}

TEST_CASE("READ responses that come early are kept", "[sim][requester][reorder]") {
    Probe p(tolerant(8));
    p.e.send(WrOpcode::RdmaRead, local(3000), kRemote);
    p.e.send(WrOpcode::RdmaRead, local(10, 0x4000), kRemote);
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 3);
    CHECK(response(p, RcReadResponseLast, kPsn + 2, 952).empty());
    CHECK(p.answer(kPsn + 4, 0x1f).empty());  // an ACK overtakes data too
    CHECK(response(p, RcReadResponseFirst, kPsn, 1024).empty());
    CHECK(p.e.sends.empty());
    CHECK(response(p, RcReadResponseMiddle, kPsn + 1, 1024).empty());
    CHECK(p.e.sends.size() == 1);
    CHECK(response(p, RcReadResponseOnly, kPsn + 3, 10).empty());
    CHECK(p.e.sends.size() == 3);
    CHECK(p.e.count(Counter::implied_nak_seq_err) == 0);
    CHECK(p.e.violations.empty());
    SECTION("not for ever") {
        p.e.send(WrOpcode::RdmaRead, local(3000), kRemote);
        p.poll();
        CHECK(response(p, RcReadResponseMiddle, kPsn + 6, 1024).empty());
        CHECK(p.e.qp.next_deadline() <= p.now + kTime);
        p.wait(kTime);
        const Packets again = p.poll();
        REQUIRE(again.size() == 1);
        CHECK(again[0].psn() == kPsn + 5);
        CHECK(response(p, RcReadResponseFirst, kPsn + 5, 1024).empty());
        CHECK(response(p, RcReadResponseLast, kPsn + 7, 952).empty());
        CHECK(p.e.sends.size() == 4);
    }
}

TEST_CASE("an error and a reset forget what is kept", "[sim][responder][reorder]") {
    Probe p(tolerant(8));
    p.write(RcWriteOnly, kTheirs, 4, 4);
    p.write(RcWriteOnly, kTheirs + 2, 4, 4);
    SECTION("refused") {
        CHECK(p.write(RcWriteOnly, kTheirs + 1, 4, 4, 0x1000, 0x999).size() == 1);
    }
    SECTION("RNR") {
        CHECK(int{p.inject(RcSendOnly, kTheirs + 1, {}, 4)[0].syndrome()} == 0x21);
    }
    SECTION("ERR") {
        p.e.set_state(QpState::Err);
        p.poll();
    }
    CHECK(p.e.kept() == 0);
    CHECK(p.e.qp.next_deadline() == kNever);
}

namespace {

// Gbit/s of `messages` messages, window wide enough that the wire is the limit.
double goodput(WrOpcode op, uint32_t bytes, double reorder, uint64_t& repeated) {
    PairOptions o = tolerant(32);
    o.config.window_packets = 512;
    o.config.dma_window = 1024;
    o.config.send_window_wqes = o.config.recv_window_wqes = 256;
    QpPair pair(o);
    pair.set_faults({.reorder = reorder, .reorder_delay = 2 * kMicrosecond});
    const uint64_t messages = 4'000'000 / bytes;
    for (uint64_t i = 0; i < messages; ++i) {
        pair.a.send(op, local(bytes), kRemote);
        if (op == WrOpcode::Send) pair.b.receive(local(bytes));
    }
    const Instant start = pair.now;
    CHECK(pair.run([&] { return pair.a.sends_done == messages; }, 10 * kSecond));
    CHECK(pair.healthy());
    repeated += pair.a.count(Counter::retransmitted_packets);
    return static_cast<double>(messages * bytes) * 8 / static_cast<double>(pair.now - start);
}

}  // namespace

TEST_CASE("1 % of the packets overtaken costs less than 10 % of goodput", "[sim][reorder][case17]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead})
        for (const uint32_t bytes : {4096u, 65536u}) {
            uint64_t repeated = 0;
            const double without = goodput(op, bytes, 0, repeated);
            const double with = goodput(op, bytes, 0.01, repeated);
            CAPTURE(static_cast<int>(op), bytes, without, with);
            CHECK(with > 0.9 * without);
            CHECK(repeated == 0);
        }
}

TEST_CASE("every fault with packets kept: nothing lost, doubled or out of order", "[sim][rc][reorder][loss]") {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        PairOptions o = tolerant(static_cast<uint32_t>(1 + seed % 63));
        o.seed = seed;
        o.path_mtu = static_cast<uint8_t>(1 + seed % 3);
        o.psn_a = 0xFFFFC0;
        if (seed % 4 == 0) o.config.dma_window = 8;
        QpPair pair(o);
        pair.set_faults({0.01, 0.01, 0.1, 0.01});
        if (seed % 3 == 0) pair.a.memory.slowest = pair.b.memory.slowest = 5 * kMicrosecond;
        if (seed % 5 == 0) pair.a.keeps = 3;
        WorkloadOptions w;
        w.seed = seed;
        Traffic t(pair, w);
        t.forward.post_many(80);
        t.backward.post_many(80);
        CAPTURE(seed);
        const bool done = pair.run([&] { return t.done() || !t.clean(); }, 100 * kSecond);
        INFO(t.first_error());
        CHECK(t.clean());
        CHECK(done);
        pair.settle();
        CHECK(pair.a.kept() + pair.b.kept() == 0);
    }
}
