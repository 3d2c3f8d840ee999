// SPDX-License-Identifier: BSD-3-Clause
// AgentPair: an EngineWorld with two RC QPs, the second one of a program that is reached through its agent.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "support/engine_world.h"

namespace rocemu::test {

struct AgentPair {
    AgentPair() {
        REQUIRE(w.connect(a, b) == 0);
        key_src = w.add_mr(sa, src.data(), src.size());
    }
    void post(WrOpcode opcode, const void* from, uint32_t length, const void* to, uint32_t rkey) {
        auto wqe = make_wqe(opcode);
        wqe.remote_addr = reinterpret_cast<uintptr_t>(to);
        wqe.rkey = rkey;
        wqe.compare_add = 1;
        a.post_send(wqe, {sge(from, length, key_src)});
    }
    // The receiver's agent alone stands still: what is sent arrives.
    void turns_without_agent(uint32_t n, Duration step = 2 * kMicrosecond) {
        w.agents_run = false;
        w.turns(n, step);
        w.agents_run = true;
    }
    abi::AgentRing& ring() { return *sb.agent->as<abi::AgentRing>(); }

    EngineWorld w;
    AppSession &sa = w.add_session(payload::Path::ProcessVm), &sb = w.add_session(payload::Path::Agent);
    AppCq &cq_a = w.add_cq(sa), &cq_b = w.add_cq(sb);
    AppQp &a = w.add_qp(sa, cq_a, cq_a, 0), &b = w.add_qp(sb, cq_b, cq_b, 1);
    std::vector<uint8_t> src = std::vector<uint8_t>(1 << 16), dst = std::vector<uint8_t>(1 << 16);
    uint32_t key_src = 0;
    abi::Cqe cqe;
};

}  // namespace rocemu::test
