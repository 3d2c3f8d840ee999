// SPDX-License-Identifier: BSD-3-Clause
// See mailbox.h.
#include "engine/mailbox.h"

#include <algorithm>

namespace rocemu::engine {

Mailbox::~Mailbox() {
    ShardCall* call = nullptr;
    while (ring_.pop(call)) delete call;
    for (auto* c : running_) delete c;
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
    // Bounded: unfinished ones take turns at the front of the list.
    const size_t again = std::min<size_t>(running_.size(), kCallsPerTurn);
    for (size_t i = 0, at = 0; i < again; ++i) {
        ShardCall* call = running_[at];
        if (run_one(call, shard)) {
            running_.erase(running_.begin() + static_cast<ptrdiff_t>(at));
            any = true;
        } else {
            ++at;
        }
    }
    if (again != 0 && running_.size() > kCallsPerTurn)
        std::rotate(running_.begin(), running_.begin() + kCallsPerTurn, running_.end());
    ShardCall* call = nullptr;
    for (uint32_t i = 0; i < kCallsPerTurn && running_.size() < Notifier::kCalls && ring_.pop(call); ++i) {
        any = true;
        if (!run_one(call, shard)) running_.push_back(call);
    }
    return any;
}

}  // namespace rocemu::engine
