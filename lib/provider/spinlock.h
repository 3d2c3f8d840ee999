// SPDX-License-Identifier: BSD-3-Clause
// Spinlock: protects one queue for the length of a post or a poll. It yields early: on a machine with few cores its
// holder may be the one that waits for the core.
#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

namespace rocemu::provider {

class Spinlock {
  public:
    void lock() {
        uint32_t tries = 0;
        while (taken_.exchange(1, std::memory_order_acquire) != 0) {
            while (taken_.load(std::memory_order_relaxed) != 0) {
                if (++tries % kSpinsBeforeYield == 0) sched_yield();
                __builtin_ia32_pause();
            }
        }
    }
    bool try_lock() { return taken_.exchange(1, std::memory_order_acquire) == 0; }
    void unlock() { taken_.store(0, std::memory_order_release); }

  private:
    static constexpr uint32_t kSpinsBeforeYield = 64;
    std::atomic<uint32_t> taken_{0};
};

template <typename Lock>
class Guard {
  public:
    explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

  private:
    Lock& lock_;
};

}  // namespace rocemu::provider
