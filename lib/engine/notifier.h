// SPDX-License-Identifier: BSD-3-Clause
// Notifier: events, MADs and finished calls from a shard to the control thread: single-producer rings and one eventfd
// that is written only when control may not know yet that there is something.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>

#include "engine/gsi.h"
#include "engine/shard_call.h"

namespace rocemu::engine {

class Notifier {
  public:
    static constexpr size_t kEvents = 4096;
    static constexpr size_t kCalls = 1024;

    Notifier();
    ~Notifier();
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;

    // Shard. False: full, try again in a later turn.
    bool post(const ShardEvent& event);
    bool post(const ReceivedMad& mad);  // full: lost, as on the wire
    bool finish(ShardCall* call);

    // Control: empties `calls` (which also clears the eventfd), then events, then MADs. All at each wake-up, in this
    // order: events and MADs share a flag, which take_events withdraws.
    size_t take_calls(ShardCall** calls, size_t room);
    size_t take_events(ShardEvent* events, size_t room);
    size_t take_mads(ReceivedMad* mads, size_t room);
    void clear_wake();
    [[nodiscard]] int fd() const { return fd_; }

  private:
    void wake(std::atomic<bool>& told);

    int fd_;
    boost::lockfree::spsc_queue<ShardEvent, boost::lockfree::capacity<kEvents>> events_;
    boost::lockfree::spsc_queue<ReceivedMad, boost::lockfree::capacity<kMaxWaitingMads>> mads_;
    boost::lockfree::spsc_queue<ShardCall*, boost::lockfree::capacity<kCalls>> calls_;
    // True: the eventfd was written since control last began to empty these rings.
    std::atomic<bool> events_told_{false}, calls_told_{false};
};

}  // namespace rocemu::engine
