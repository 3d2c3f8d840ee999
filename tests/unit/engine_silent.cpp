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
