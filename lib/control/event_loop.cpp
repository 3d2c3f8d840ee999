// SPDX-License-Identifier: BSD-3-Clause
// EventLoop: see event_loop.h. An event carries the generation of its registration: a number that was closed and
// opened again within one round does not get the old one's events.
#include "control/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace rocemu::control {

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) throw std::system_error(errno, std::system_category(), "epoll_create1");
}

Instant EventLoop::now() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return {t.tv_sec * kSecond + t.tv_nsec};
}

bool EventLoop::add(int fd, uint32_t events, Handler handler) {
    auto entry = std::make_shared<Entry>(Entry{next_generation_++, std::move(handler)});
    epoll_event e{};
    e.events = events;
    e.data.u64 = uint64_t{entry->generation} << 32 | static_cast<uint32_t>(fd);
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) != 0) return false;
    entries_[fd] = std::move(entry);
    return true;
}

void EventLoop::modify(int fd, uint32_t events) {
    const auto it = entries_.find(fd);
    if (it == entries_.end()) return;
    epoll_event e{};
    e.events = events;
    e.data.u64 = uint64_t{it->second->generation} << 32 | static_cast<uint32_t>(fd);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &e);
}

void EventLoop::remove(int fd) {
    if (entries_.erase(fd)) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::every(Duration period, std::function<void()> what) {
    timers_.push_back({period, now() + period, std::move(what)});
}

void EventLoop::run_due() {
    const Instant t = now();
    for (size_t i = 0; i < timers_.size(); ++i) {
        if (t < timers_[i].due) continue;
        timers_[i].due = t + timers_[i].period;
        timers_[i].what();
    }
}

void EventLoop::turn(Duration limit) {
    Duration wait = limit;
    for (const auto& timer : timers_) wait = std::min(wait, std::max<Duration>(timer.due - now(), 0));
    if (!deferred_.empty()) wait = 0;
    std::array<epoll_event, 64> events;
    const int timeout_ms = static_cast<int>((wait + kMillisecond - 1) / kMillisecond);
    const int n = epoll_wait(epoll_.get(), events.data(), events.size(), timeout_ms);
    for (int i = 0; i < n; ++i) {
        const auto& e = events[static_cast<size_t>(i)];
        const auto it = entries_.find(static_cast<int>(e.data.u64 & 0xffffffff));
        if (it == entries_.end() || it->second->generation != e.data.u64 >> 32) continue;
        const auto entry = it->second;  // stays alive when its handler removes it
        entry->handler(e.events);
    }
    run_due();
    auto deferred = std::move(deferred_);
    deferred_.clear();
    for (auto& what : deferred) what();
}

void EventLoop::run() {
    while (!stopped_) turn(kSecond);
}

}  // namespace rocemu::control
