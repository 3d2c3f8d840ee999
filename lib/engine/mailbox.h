// SPDX-License-Identifier: BSD-3-Clause
// Mailbox: ShardCalls on their way in. Each is run until it says it has finished, a bounded number a turn; finished
// ones go back through the notifier.
#pragma once

#include <boost/lockfree/spsc_queue.hpp>
#include <deque>
#include <vector>

#include "engine/notifier.h"
#include "engine/shard_call.h"

namespace rocemu::engine {

class Mailbox {
  public:
    static constexpr uint32_t kCallsPerTurn = 32;

    explicit Mailbox(Notifier& notifier) : notifier_(notifier) {}
    ~Mailbox();

    // Control thread.
    bool push(ShardCall* call) { return ring_.push(call); }
    // Shard: true if a call made progress (ran to its end).
    bool run(Shard& shard);
    // Shard: calls wait to run again or to be told of, or new ones have arrived.
    [[nodiscard]] bool busy() const { return !waiting_.empty() || !finished_.empty() || arrived(); }
    [[nodiscard]] bool arrived() const { return ring_.read_available() != 0; }

  private:
    bool run_one(ShardCall* call, Shard& shard);

    Notifier& notifier_;
    boost::lockfree::spsc_queue<ShardCall*, boost::lockfree::capacity<Notifier::kCalls>> ring_;
    // Said "not finished": again in a later turn. As many as there are: calls that wait for a program that does not do its
    // part (an agent that keeps its jobs) must not take the place of everybody else's. Control bounds what a session has.
    std::deque<ShardCall*> waiting_;
    std::vector<ShardCall*> finished_;  // did not fit into the notifier
};

}  // namespace rocemu::engine
