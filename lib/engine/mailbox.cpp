// SPDX-License-Identifier: BSD-3-Clause
// See mailbox.h.
#include "engine/mailbox.h"

#include <algorithm>

namespace rocemu::engine {

Mailbox::~Mailbox() {
    ShardCall* call = nullptr;
    while (ring_.pop(call)) delete call;
    for (auto* c : waiting_) delete c;
    for (auto* c : finished_) delete c;
}

bool Mailbox::run_one(ShardCall* call, Shard& shard) {
    if (!call->on_shard(shard)) return false;
    if (!notifier_.finish(call)) finished_.push_back(call);
    return true;
}

bool Mailbox::run(Shard& shard) {
    bool any = false;
    if (!finished_.empty()) {
        const auto rest =
            std::find_if_not(finished_.begin(), finished_.end(), [&](ShardCall* c) { return notifier_.finish(c); });
        any |= rest != finished_.begin();
        finished_.erase(finished_.begin(), rest);
    }
    // Bounded: unfinished ones take turns.
    for (size_t i = std::min<size_t>(waiting_.size(), kCallsPerTurn); i != 0; --i) {
        ShardCall* call = waiting_.front();
        waiting_.pop_front();
        if (run_one(call, shard))
            any = true;
        else
            waiting_.push_back(call);
    }
    ShardCall* call = nullptr;
    for (uint32_t i = 0; i < kCallsPerTurn && ring_.pop(call); ++i) {
        any = true;
        if (!run_one(call, shard)) waiting_.push_back(call);
    }
    return any;
}

}  // namespace rocemu::engine
