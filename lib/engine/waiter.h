// SPDX-License-Identifier: BSD-3-Clause
// Waiter: what a shard does when a turn had nothing to do: some empty polls, then sched_yield per poll, then sleep in
// epoll on everything that can wake it. A yield that takes long shows that others want this core: then it sleeps at
// once for the next waits. (Both sides of the border do so; figures in docs/performance.md.)
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "engine/shard.h"

namespace rocemu::engine {

class Waiter {
  public:
    explicit Waiter(const WaitPolicy& policy);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // Any thread: ends a sleep, or prevents the next one if the shard is about to.
    void wake();
    // Edge-triggered: never read. (The application holds the other end of its eventfd and could make a read block.)
    void watch(int fd);
    void unwatch(int fd);

    enum class Advice { Poll, Sleep };
    // After a turn. `may_sleep`: nothing is pending that only polling moves on. Yields inside.
    Advice after_turn(bool did_something, bool may_sleep, Instant now);
    // Between announcing the sleep (flags, fence, last look) and withdrawing it. Wakes at `deadline` at the latest.
    void sleep(Instant now, Instant deadline);
    // Handshake with wake(): set before the last look, cleared after the sleep.
    void announce();
    void withdraw();

  private:
    WaitPolicy policy_;
    int epoll_fd_;
    int event_fd_;
    std::atomic<uint32_t> sleeping_{0};
    uint32_t empty_ = 0;
    uint32_t contended_ = 0;  // waits that go straight to sleep
    Instant idle_since_;
};

// CLOCK_MONOTONIC.
Instant read_clock();

}  // namespace rocemu::engine
