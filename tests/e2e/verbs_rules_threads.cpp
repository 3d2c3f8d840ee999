// SPDX-License-Identifier: BSD-3-Clause
// Control calls of several threads: one that has to wait (for the MAC address of somebody who does not answer) keeps no
// other from being answered, and queues that are made at the same time share memory that each thread finds.
#include <atomic>
#include <thread>

#include "verbs_rules.h"

namespace rules {
namespace {

// Nobody has the address: the daemon asks for seconds.
ibv_ah_attr nowhere(const Nic& nic, uint8_t host) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = nic.gid;
    attr.grh.dgid.raw[15] = host;
    attr.grh.sgid_index = static_cast<uint8_t>(nic.gid_index);
    attr.grh.hop_limit = 64;
    return attr;
}

// Has this thread got its own things done while the other one waited?
bool waits_alone(Nic& nic, uint8_t host) {
    std::atomic<bool> asked{false}, told{false};
    ibv_ah* ah = nullptr;
    int error = 0;
    std::thread waiter([&] {
        ibv_ah_attr attr = nowhere(nic, host);
        asked = true;
        ah = ibv_create_ah(nic.pd, &attr);
        error = errno;
        told = true;
    });
    while (!asked) std::this_thread::yield();
    static uint8_t memory[4096];
    constexpr int kMrs = 20;
    int made = 0;
    for (int i = 0; i < kMrs; ++i) {
        ibv_mr* mr = ibv_reg_mr(nic.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        if (mr != nullptr && ibv_dereg_mr(mr) == 0) ++made;
    }
    const bool meanwhile = !told;
    waiter.join();
    EQUAL(made, kMrs);
    RULE(ah == nullptr);
    EQUAL(error, ETIMEDOUT);
    return meanwhile;
}

// Enough for several regions of queues.
void queues_at_once(Nic& nic) {
    constexpr int kThreads = 4, kRounds = 20;
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&nic, &right] {
            for (int i = 0; i < kRounds; ++i) {
                ibv_cq* cq = ibv_create_cq(nic.context, 1000, nullptr, nullptr, 0);
                ibv_qp_init_attr init{};
                init.qp_type = IBV_QPT_RC;
                init.send_cq = init.recv_cq = cq;
                init.cap = {500, 500, 4, 4, 0};
                ibv_qp* qp = cq != nullptr ? ibv_create_qp(nic.pd, &init) : nullptr;
                ibv_wc wc{};
                if (qp != nullptr && ibv_resize_cq(cq, 2000) == 0 && ibv_poll_cq(cq, 1, &wc) == 0 && ibv_destroy_qp(qp) == 0 &&
                    ibv_destroy_cq(cq) == 0)
                    ++right;
            }
        });
    for (auto& t : threads) t.join();
    EQUAL(right, kThreads * kRounds);
}

}  // namespace

void threads(Nic& a, Nic&) {
    group = "threads";
    // More than once only where the machine stands still for seconds.
    RULE(waits_alone(a, 250) || waits_alone(a, 249) || waits_alone(a, 248));
    queues_at_once(a);
}

}  // namespace rules
