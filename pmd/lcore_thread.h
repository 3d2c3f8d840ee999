// SPDX-License-Identifier: BSD-3-Clause
// LcoreThread: a thread that DPDK knows (per-lcore mempool caches), pinned to a CPU or floating. Shards run in them.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace rocemu::pmd {

class LcoreThread {
  public:
    static constexpr int kAnyCpu = -1;
    // `name` (at most 15 characters) is what top -H shows. A CPU that does not exist or is not allowed: the thread
    // floats and pinned() is false.
    LcoreThread(int cpu, const std::string& name, std::function<void()> body);
    ~LcoreThread();  // joins
    [[nodiscard]] static bool allowed(int cpu);  // whether this process may run on it
    void join();
    [[nodiscard]] bool pinned() const { return pinned_; }

  private:
    bool pinned_ = false;
    std::thread thread_;
};

}  // namespace rocemu::pmd
