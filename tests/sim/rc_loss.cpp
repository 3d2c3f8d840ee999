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
