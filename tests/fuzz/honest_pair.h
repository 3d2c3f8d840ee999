// SPDX-License-Identifier: BSD-3-Clause
// HonestPair: a shard with two NICs and two connected QPs of a program that does nothing wrong, whatever a fuzzer does
// on the same shard.
#pragma once

#include "support/engine_world.h"
#include "tests/fuzz/input.h"

namespace rocemu::fuzz {

struct HonestPair {
    HonestPair()
        : session(w.add_session()),
          cq(w.add_cq(session)),
          a(w.add_qp(session, cq, cq, 0)),
          b(w.add_qp(session, cq, cq, 1)),
          key(w.add_mr(session, memory.data(), memory.size())) {
        check(w.connect(a, b) == 0);
    }
    void works() {
        std::fill_n(memory.begin(), 3000, ++pattern);
        b.post_recv(1, {test::sge(&memory[4096], 3000, key)});
        a.post_send(test::make_wqe(WrOpcode::Send), {test::sge(memory.data(), 3000, key)});
        abi::Cqe e;
        for (int i = 0; i < 2; ++i)
            check(w.wait_cqe(cq, e) && static_cast<WcStatus>(e.status) == WcStatus::Success);
        check(std::equal(memory.begin(), memory.begin() + 3000, memory.begin() + 4096));
    }

    std::vector<uint8_t> memory = std::vector<uint8_t>(8192);
    uint8_t pattern = 0;
    test::EngineWorld w;
    test::AppSession& session;
    test::AppCq& cq;
    test::AppQp &a, &b;
    uint32_t key;
};

}  // namespace rocemu::fuzz
