// SPDX-License-Identifier: BSD-3-Clause
// ShardSet: see shard_link.h.
#include "control/shard_link.h"

#include <unistd.h>

#include <array>

#include "engine/notifier.h"

namespace rocemu::control {

ShardSet::ShardSet(EventLoop& loop, std::vector<engine::Shard*> shards, EventHandler on_event, MadHandler on_mad)
    : loop_(loop), on_event_(std::move(on_event)), on_mad_(std::move(on_mad)) {
    for (auto* shard : shards) {
        links_.emplace_back().shard = shard;
        loop_.add(shard->control_fd(), EPOLLIN, [this, fd = shard->control_fd()](uint32_t) {
            uint64_t count = 0;
            // Before looking: what comes afterwards makes it readable again.
            (void)!::read(fd, &count, sizeof count);
            poll();
        });
    }
}

ShardSet::~ShardSet() {
    for (auto& link : links_) loop_.remove(link.shard->control_fd());
}

void ShardSet::submit_call(uint32_t index, std::unique_ptr<engine::ShardCall> call) {
    Link& link = links_[index];
    ++in_flight_;
    link.backlog.push_back(std::move(call));
    pump(link);
}

void ShardSet::pump(Link& link) {
    while (!link.backlog.empty() && link.shard->submit(link.backlog.front())) link.backlog.pop_front();
}

void ShardSet::hear_events(uint32_t index) {
    // Bounded: no more than these waited when we began, those of the call that has come back among them. Who adds one
    // later wakes us again, so a shard that always has something to tell does not keep programs from being served.
    std::array<engine::ShardEvent, 64> events;
    for (size_t heard = 0, n = 0; heard < engine::Notifier::kEvents; heard += n) {
        n = links_[index].shard->poll_events(events);
        for (size_t i = 0; i < n; ++i) on_event_(events[i]);
        if (n < events.size()) break;
    }
}

void ShardSet::poll() {
    for (uint32_t index = 0; index < links_.size(); ++index) {
        Link& link = links_[index];
        in_flight_ -= link.shard->finish_calls();
        hear_events(index);
        // Bounded: MADs from a fast or hostile wire do not keep programs from being served. No more than these can wait
        // now, so whoever adds one later wakes us again.
        std::array<engine::ReceivedMad, 16> mads;
        for (size_t taken = 0, n = 0; taken < engine::kMaxWaitingMads; taken += n) {
            n = link.shard->poll_mads(mads);
            for (size_t i = 0; i < n; ++i) on_mad_(mads[i]);
            if (n < mads.size()) break;
        }
        pump(link);
    }
}

}  // namespace rocemu::control
