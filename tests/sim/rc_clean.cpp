// SPDX-License-Identifier: BSD-3-Clause
// RC on a link without faults: every operation, path MTU and size arrives; PSNs wrap; scattered memory; slow memory.
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
    CHECK(t.done());
}

void check_no_retransmission(QpPair& p) {
    for (Endpoint* e : {&p.a, &p.b}) {
        CHECK(e->count(Counter::retransmitted_packets) == 0);
        CHECK(e->count(Counter::local_ack_timeout_err) == 0);
        CHECK(e->count(Counter::naks_sent) == 0);
        CHECK(e->count(Counter::duplicate_request) == 0);
    }
}

}  // namespace

TEST_CASE("every operation, MTU and size around the segment borders", "[sim][rc][9.2.1][case1]") {
    for (uint8_t mtu = 1; mtu <= 5; ++mtu) {
        const uint32_t bytes = 128u << mtu;
        PairOptions o;
        o.path_mtu = mtu;
        QpPair pair(o);
        Traffic t(pair, WorkloadOptions{});
        for (const WrOpcode op : WorkloadOptions{}.operations)
            for (const uint32_t n :
                 {0u, 1u, 2u, 3u, 4u, 5u, bytes - 1, bytes, bytes + 1, 2 * bytes, 3 * bytes - 1, 7 * bytes + 3}) {
                t.forward.post(op, n);
                t.backward.post(op, n);
            }
        CAPTURE(int{mtu});
        check(t);
        check_no_retransmission(pair);
    }
}

TEST_CASE("messages of several megabytes", "[sim][rc]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead}) {
        PairOptions o;
        o.path_mtu = 5;
        o.memory_bytes = 24 << 20;
        QpPair pair(o);
        Traffic t(pair, WorkloadOptions{});
        t.forward.post(op, 8 << 20);
        t.forward.post(op, (2 << 20) + 1);
        check(t);
        check_no_retransmission(pair);
    }
}

TEST_CASE("PSN and MSN wrap", "[sim][rc][9.7.1][9.7.7.1]") {
    PairOptions o;
    o.psn_a = 0xFFFFF0;
    o.psn_b = 0xFFFFFF;
    o.path_mtu = 1;
    QpPair pair(o);
    Traffic t(pair, WorkloadOptions{});
    t.forward.post_many(100);
    t.backward.post_many(100);
    check(t);
    check_no_retransmission(pair);
}

TEST_CASE("random traffic in both directions with slow memory", "[sim][rc][9.7.5.1.8]") {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        PairOptions o;
        o.seed = seed;
        QpPair pair(o);
        pair.a.memory.slowest = pair.b.memory.slowest = 3 * kMicrosecond;
        WorkloadOptions w;
        w.seed = seed;
        Traffic t(pair, w);
        t.forward.post_many(150);
        t.backward.post_many(150);
        CAPTURE(seed);
        check(t);
        CHECK(pair.a.count(Counter::local_ack_timeout_err) == 0);
        CHECK((pair.a.memory.placed_directly > 0 && pair.b.memory.placed_directly > 0));
    }
}

TEST_CASE("turns of one packet at a time give the same result", "[sim][rc]") {
    QpPair pair;
    pair.a.turn_bytes = pair.b.turn_bytes = 1;
    Traffic t(pair, WorkloadOptions{});
    t.forward.post_many(60);
    t.backward.post_many(60);
    check(t);
    check_no_retransmission(pair);
}

TEST_CASE("ACKs are coalesced: one for a burst that arrives together", "[sim][rc][9.7.5.1.2]") {
    QpPair pair;
    pair.ab.picoseconds_per_byte = 0;
    Traffic t(pair, WorkloadOptions{});
    for (int i = 0; i < 32; ++i) t.forward.post(WrOpcode::RdmaWrite, 100);
    check(t);
    CHECK(pair.b.count(Counter::acks_sent) <= 32);
}
