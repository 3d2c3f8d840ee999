// SPDX-License-Identifier: BSD-3-Clause
// See lcore_thread.h.
#include "pmd/lcore_thread.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

namespace rocemu::pmd {

LcoreThread::LcoreThread(int cpu, const std::string& name, std::function<void()> body) {
    thread_ = std::thread([body = std::move(body)] {
        // Registration gives the thread an lcore id and so its own mempool caches. Without one it works, slower.
        const bool registered = rte_thread_register() == 0;
        body();
        if (registered) rte_thread_unregister();
    });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        pinned_ = pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set) == 0;
    }
}

bool LcoreThread::allowed(int cpu) {
    cpu_set_t set;
    return cpu >= 0 && cpu < CPU_SETSIZE && sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(cpu, &set);
}

LcoreThread::~LcoreThread() {
    join();
}

void LcoreThread::join() {
    if (thread_.joinable()) thread_.join();
}

}  // namespace rocemu::pmd
