// SPDX-License-Identifier: BSD-3-Clause
// A shard that was not run for longer than a QP's timer: what arrived meanwhile is looked at before the timer is believed.
#include <catch2/catch.hpp>

#include "support/busy_port.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

// Two shards: the requester's is the one that comes late.
struct World {
    World() : here(0), there(init(), 1) {
        sa = &here.add_session();
        sb = &there.add_session();
        cq_a = &here.add_cq(*sa);
        AppCq& cq_b = there.add_cq(*sb);
        a = &here.add_qp(*sa, *cq_a, *cq_a, 0);
        AppQp& b = there.add_qp(*sb, cq_b, cq_b, 1);
        constexpr uint8_t kMtu256 = 1, kTimeout67us = 4;
        REQUIRE(here.connect_one(*a, b, kMtu256, kTimeout67us, 7) == 0);
        REQUIRE(there.connect_one(b, *a, kMtu256, kTimeout67us, 7) == 0);
        key = there.add_mr(*sb, buffer, sizeof buffer);
    }
    EngineWorld& init() {
        here.wrap_port = [this](engine::Port& real) -> engine::Port& { return ports.emplace_back(real, here.pool); };
        here.add_nics(0, 1);
        return here;
    }
    // The request goes out, the answer waits behind `useless` frames, and the requester's shard comes a millisecond late.
    void late_answer(uint32_t useless) {
        auto w = make_wqe(WrOpcode::RdmaWrite, 1, send_flags::kSignaled);
        w.remote_addr = reinterpret_cast<uintptr_t>(buffer);
        w.rkey = key;
        a->post_send(w, {}, std::vector<std::byte>(8));
        here.turns(4);
        there.now = here.now;
        there.turns(4);
        here.now = there.now + kMillisecond;
        ports.front().useless = useless;
    }
    [[nodiscard]] uint64_t expiries() const { return here.counter(0, stats::Counter::local_ack_timeout_err); }

    std::deque<BusyPort> ports;
    EngineWorld here, there;
    AppSession *sa = nullptr, *sb = nullptr;
    AppCq* cq_a = nullptr;
    AppQp* a = nullptr;
    std::byte buffer[64];
    uint32_t key = 0;
    abi::Cqe cqe;
};

}  // namespace

TEST_CASE("no ACK timer expires while the ACK waits in the receive ring", "[engine][9.7.6.1.3]") {
    World w;
    w.late_answer(32 * 64);  // whole bursts
    REQUIRE(w.here.wait_cqe(*w.cq_a, w.cqe, 100));
    CHECK(w.expiries() == 0);
}

TEST_CASE("a ring that never becomes empty does not hold timers up for ever", "[engine]") {
    World w;
    w.late_answer(1 << 20);
    CHECK(w.here.run_until([&] { return w.expiries() != 0; }, 500));
}
