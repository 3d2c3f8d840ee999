// SPDX-License-Identifier: BSD-3-Clause
// A program that is reached through its agent and does not answer: stopped for longer than a job may take, or dead.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "support/agent_pair.h"

using namespace rocemu;
using namespace rocemu::test;

TEST_CASE("a process that does not answer in time costs its QP one time limit, not one for each request", "[engine]") {
    AgentPair p;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size());
    std::fill(p.src.begin(), p.src.end(), uint8_t{1});
    for (uint32_t i = 0; i < 50; ++i) p.post(WrOpcode::RdmaWrite, p.src.data(), 100, &p.dst[i * 100], key);
    p.turns_without_agent(50);
    const uint32_t jobs = p.ring().submitted.load();
    REQUIRE(jobs >= 50);
    SECTION("it was stopped: what it was given is not given to it again") {
        p.turns_without_agent(2500, 10 * kMillisecond);
        CHECK(p.ring().submitted == jobs);
        REQUIRE(p.w.run_until([&] { return p.w.shard.destroy_qp(p.b.qpn); }, 10));
        CHECK(p.ring().submitted == jobs);
    }
    SECTION("its QP is destroyed meanwhile") {
        p.w.agents_run = false;
        CHECK_FALSE(p.w.shard.destroy_qp(p.b.qpn));
        p.w.turns(25, 100 * kMillisecond);
        p.w.agents_run = true;
        REQUIRE(p.w.run_until([&] { return p.w.shard.destroy_qp(p.b.qpn); }, 10));
        CHECK(p.ring().submitted == jobs);
    }
    SECTION("it is dead") {
        p.w.agents_run = false;
        CHECK_FALSE(p.w.shard.destroy_qp(p.b.qpn));
        p.w.shard.abandon_payload(p.sb.id);
        REQUIRE(p.w.run_until([&] { return p.w.shard.destroy_qp(p.b.qpn); }, 10));
        CHECK(p.ring().submitted == jobs);
    }
}

TEST_CASE("nothing is written for a QP, or into a region, when a process that had been stopped is told of its end",
          "[engine][10.6.3]") {
    AgentPair p;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size());
    std::fill(p.src.begin(), p.src.end(), uint8_t{1});
    p.post(WrOpcode::RdmaWrite, p.src.data(), 100, p.dst.data(), key);
    p.turns_without_agent(50);
    const auto what = GENERATE(values<const char*>({"destroy_qp", "modify_qp to RESET", "dereg_mr"}));
    const auto when = GENERATE(values<const char*>({"between jobs", "in a job", "in a job, and it dies"}));
    CAPTURE(what, when);
    const bool begun = std::strcmp(when, "between jobs") != 0, dies = std::strcmp(when, "in a job, and it dies") == 0;
    auto& ring = p.ring();
    REQUIRE(ring.submitted != 0);
    if (begun) REQUIRE(ring.jobs[0].change_state(0, abi::AgentJobState::Taken));
    p.turns_without_agent(2500, kMillisecond);
    if (std::strcmp(what, "dereg_mr") == 0) REQUIRE(p.w.shard.keys().remove(key));
    uint64_t fence = 0;
    const auto ended = [&] {
        if (std::strcmp(what, "destroy_qp") == 0) return p.w.shard.destroy_qp(p.b.qpn);
        if (std::strcmp(what, "dereg_mr") == 0) return p.w.shard.payload_passed(p.sb.id, fence);
        transport::QpAttr reset;
        reset.state = QpState::Reset;
        return p.w.modify(p.b, reset, qp_attr_mask::kState) == 0;
    };
    p.w.agents_run = false;
    CHECK(p.w.run_until(ended, 50) == !begun);
    if (dies) p.w.shard.abandon_payload(p.sb.id);
    p.w.agents_run = !dies;
    if (begun) REQUIRE(p.w.run_until(ended, 10));
    std::fill(p.dst.begin(), p.dst.end(), uint8_t{0});
    p.w.turns(200);
    CHECK(std::count(p.dst.begin(), p.dst.end(), 0) == static_cast<ptrdiff_t>(p.dst.size()));
    CHECK((dies || ring.done == ring.submitted));
}
