// SPDX-License-Identifier: BSD-3-Clause
// See notifier.h.
#include "engine/notifier.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace rocemu::engine {

Notifier::Notifier() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
Notifier::~Notifier() {
    if (fd_ >= 0) close(fd_);
}

// Control clears `told` before it empties the ring; the exchange orders our push before it, so either control still
// sees the element or we see that it must be told again.
void Notifier::wake(std::atomic<bool>& told) {
    if (told.exchange(true)) return;
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(fd_, &one, sizeof one);
}

bool Notifier::post(const ShardEvent& event) {
    if (!events_.push(event)) return false;
    wake(events_told_);
    return true;
}

bool Notifier::post(const ReceivedMad& mad) {
    if (!mads_.push(mad)) return false;
    wake(events_told_);
    return true;
}

bool Notifier::finish(ShardCall* call) {
    if (!calls_.push(call)) return false;
    wake(calls_told_);
    return true;
}

void Notifier::clear_wake() {
    uint64_t count;
    [[maybe_unused]] const auto n = read(fd_, &count, sizeof count);
}

size_t Notifier::take_calls(ShardCall** calls, size_t room) {
    calls_told_.exchange(false);
    return calls_.pop(calls, room);
}

size_t Notifier::take_events(ShardEvent* events, size_t room) {
    events_told_.exchange(false);
    return events_.pop(events, room);
}

size_t Notifier::take_mads(ReceivedMad* mads, size_t room) {
    return mads_.pop(mads, room);
}

}  // namespace rocemu::engine
