// SPDX-License-Identifier: BSD-3-Clause
// RC on a link with faults: nothing is lost, invented, doubled or reordered, whatever the link does.
// IBTA volume 1, 9.7.5 and 9.7.6; seeds name the runs.
#include <catch2/catch.hpp>

#include "tests/sim/workload.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;

namespace {

void check(Traffic& t, Duration limit = 100 * kSecond) {
    const bool done = t.pair.run([&] { return t.done() || !t.clean(); }, limit);
    INFO(t.first_error());
    CHECK(t.clean());
    CHECK(done);
}

}  // namespace

TEST_CASE("1 % of every fault, both directions, every operation", "[sim][rc][loss]") {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        PairOptions o;
        o.seed = seed;
        o.path_mtu = static_cast<uint8_t>(1 + seed % 5);
        o.psn_a = 0xFFFF80;
        QpPair pair(o);
        pair.set_faults({0.01, 0.01, 0.01, 0.01});
        if (seed % 3 == 0) pair.a.memory.slowest = pair.b.memory.slowest = 5 * kMicrosecond;
        WorkloadOptions w;
        w.seed = seed;
        Traffic t(pair, w);
        t.forward.post_many(120);
        t.backward.post_many(120);
        CAPTURE(seed);
        check(t);
    }
}

TEST_CASE("one packet of a WRITE of 16 is lost, and its repetition too: a round each time, never a timeout",
          "[sim][rc][loss][case11][9.7.5.1.3]") {
    constexpr uint32_t kPackets = 16;
    for (uint32_t lost = 0; lost < kPackets; ++lost)
        for (uint32_t times = 1; times <= 3; ++times) {
            PairOptions o;
            o.attr.timeout = 14;
            QpPair pair(o);
            pair.a.send(WrOpcode::RdmaWrite, {{kMemoryBase, 8, kKey}}, kMemoryBase + 0x10000);
            pair.settle();  // a round trip is measured
            const Instant start = pair.now;
            const uint32_t psn = o.psn_a + 1 + lost;
            uint32_t left = times;
            pair.ab.filter = [&](const wire::PacketView& v) {
                if (v.bth.psn != psn || left == 0) return Fate::Pass;
                --left;
                return Fate::Drop;
            };
            pair.a.send(WrOpcode::RdmaWrite, {{kMemoryBase, kPackets * 1024, kKey}}, kMemoryBase + 0x10000);
            CHECK(pair.run([&] { return pair.a.sends.size() == 2; }));
            CAPTURE(lost, times);
            REQUIRE(pair.a.sends.size() == 2);
            CHECK(pair.a.sends[1].status == WcStatus::Success);
            CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
            CHECK(pair.now - start < 10 * kMillisecond);  // a timeout would be 67 ms at least
            // A round is the lost packet and what stands behind it, and at most one probe; the last packet shows no gap.
            CHECK(pair.b.count(Counter::naks_sent) <= times);
            CHECK(pair.b.count(Counter::naks_sent) >= (lost + 1 == kPackets ? 0u : 1u));
            CHECK(pair.a.count(Counter::packet_seq_err) == pair.b.count(Counter::naks_sent));
            CHECK(pair.a.count(Counter::retransmitted_packets) >= times);
            CHECK(pair.a.count(Counter::retransmitted_packets) <= times * (kPackets - lost + 1));
            CHECK(pair.healthy());
        }
}

// Without a round trip measured there are no probes: a packet goes out 1 + retry_cnt times, and each time it or its ACK
// is lost with p = 1 - (1 - f)^2. So a first message fails with p^(1 + retry_cnt); nothing else ends a connection,
// whatever the window. (At f = 10 % and retry_cnt 7 that is one in 600,000.)
TEST_CASE("a bad link ends a connection as often as it must", "[sim][rc][loss][case18][9.9.2.1.1]") {
    for (const uint32_t window : {1u, 128u}) {
        constexpr int kRuns = 3000;
        constexpr double kLoss = 0.25;
        int failed = 0;
        for (int seed = 1; seed <= kRuns; ++seed) {
            PairOptions o;
            o.seed = static_cast<uint64_t>(seed);
            o.memory_bytes = 4096;
            o.config.window_packets = window;
            o.attr.retry_cnt = 1;
            QpPair pair(o);
            pair.set_faults({.drop = kLoss});
            pair.a.send(WrOpcode::RdmaWrite, {{kMemoryBase, 8, kKey}}, kMemoryBase + 64);
            pair.settle();
            REQUIRE(pair.a.sends.size() == 1);
            failed += pair.a.sends[0].status == WcStatus::RetryExcErr;
        }
        const double p = 1 - (1 - kLoss) * (1 - kLoss);
        CAPTURE(window);
        CHECK(failed == Approx(p * p * kRuns).epsilon(0.15));  // 574; one standard deviation is 21.5
    }
}

TEST_CASE("10 % of every fault", "[sim][rc][loss]") {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        PairOptions o;
        o.seed = seed;
        QpPair pair(o);
        pair.set_faults({0.1, 0.1, 0.1, 0.1});
        WorkloadOptions w;
        w.seed = seed;
        w.max_bytes = 6000;
        Traffic t(pair, w);
        t.forward.post_many(60);
        t.backward.post_many(60);
        CAPTURE(seed);
        check(t);
    }
}
