// SPDX-License-Identifier: BSD-3-Clause
// EventLoop: epoll for the control thread. Everything in lib/control runs on this one thread; handlers may add and
// remove descriptors, their own included.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "control/unique_fd.h"

namespace rocemu::control {

class EventLoop {
  public:
    using Handler = std::function<void(uint32_t events)>;

    EventLoop();  // throws std::system_error

    // `events`: EPOLLIN, EPOLLOUT (level-triggered); errors and hang-ups are always told. False: epoll refuses the fd.
    bool add(int fd, uint32_t events, Handler handler);
    void modify(int fd, uint32_t events);
    void remove(int fd);  // before the fd is closed
    void every(Duration period, std::function<void()> what);
    // Runs after the current round of events.
    void defer(std::function<void()> what) { deferred_.push_back(std::move(what)); }

    void run();
    void stop() { stopped_ = true; }
    // Waits at most `limit` and handles one round.
    void turn(Duration limit);
    [[nodiscard]] static Instant now();  // CLOCK_MONOTONIC

  private:
    struct Entry {
        uint32_t generation;
        Handler handler;
    };
    struct Timer {
        Duration period;
        Instant due;
        std::function<void()> what;
    };
    void run_due();

    UniqueFd epoll_;
    std::unordered_map<int, std::shared_ptr<Entry>> entries_;
    std::vector<Timer> timers_;
    std::vector<std::function<void()>> deferred_;
    uint32_t next_generation_ = 1;
    bool stopped_ = false;
};

}  // namespace rocemu::control
