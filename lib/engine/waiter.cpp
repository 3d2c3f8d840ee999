// SPDX-License-Identifier: BSD-3-Clause
// See waiter.h.
#include "engine/waiter.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace rocemu::engine {

Instant read_clock() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return {t.tv_sec * kSecond + t.tv_nsec};
}

Waiter::Waiter(const WaitPolicy& policy)
    : policy_(policy), epoll_fd_(epoll_create1(EPOLL_CLOEXEC)), event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    watch(event_fd_);
}

Waiter::~Waiter() {
    if (event_fd_ >= 0) close(event_fd_);
    if (epoll_fd_ >= 0) close(epoll_fd_);
}

void Waiter::wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with announce()
    if (sleeping_.load(std::memory_order_relaxed) == 0) return;
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(event_fd_, &one, sizeof one);
}

void Waiter::watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.fd = fd;
    if (fd >= 0) epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
}

void Waiter::unwatch(int fd) {
    if (fd >= 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

Waiter::Advice Waiter::after_turn(bool did_something, bool may_sleep, Instant now) {
    if (did_something) {
        empty_ = 0;
        return Advice::Poll;
    }
    if (policy_.mode == WaitPolicy::Mode::Dedicated) return Advice::Poll;
    if (empty_++ == 0) idle_since_ = now;
    if (empty_ <= policy_.empty_polls) return Advice::Poll;
    if (may_sleep && contended_ > 0) {
        --contended_;
        return Advice::Sleep;
    }
    if (may_sleep && now - idle_since_ >= policy_.idle_before_sleep) return Advice::Sleep;
    sched_yield();
    if (read_clock() - now > policy_.contended_yield) contended_ = policy_.contended_waits;
    return Advice::Poll;
}

void Waiter::announce() {
    sleeping_.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Waiter::withdraw() {
    sleeping_.store(0, std::memory_order_relaxed);
}

void Waiter::sleep(Instant now, Instant deadline) {
    const Duration longest = std::max<Duration>(policy_.max_sleep, 0);
    const Duration d = deadline == kNever ? longest : std::clamp<Duration>(deadline - now, 0, longest);
    const timespec timeout{d / kSecond, d % kSecond};
    epoll_event events[16];
    if (epoll_pwait2(epoll_fd_, events, 16, &timeout, nullptr) < 0 && errno == ENOSYS)
        epoll_wait(epoll_fd_, events, 16, static_cast<int>((d + kMillisecond - 1) / kMillisecond));
}

}  // namespace rocemu::engine
