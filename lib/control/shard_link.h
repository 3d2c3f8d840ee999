// SPDX-License-Identifier: BSD-3-Clause
// ShardSet: the control thread's way to the shards. Calls are closures: one part runs on the shard, one comes back
// here. Order per shard is kept, also when a shard's ring is full for a while.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "control/event_loop.h"
#include "engine/shard.h"

namespace rocemu::control {

// on_shard(Shard&) -> bool (false: again in the next turn); on_control().
template <typename OnShard, typename OnControl>
class ShardCallOf final : public engine::ShardCall {
  public:
    ShardCallOf(OnShard on_shard, OnControl on_control)
        : on_shard_(std::move(on_shard)), on_control_(std::move(on_control)) {}
    bool on_shard(engine::Shard& shard) override { return on_shard_(shard); }
    void on_control() override { on_control_(); }

  private:
    OnShard on_shard_;
    OnControl on_control_;
};

class ShardSet {
  public:
    using EventHandler = std::function<void(const engine::ShardEvent&)>;
    using MadHandler = std::function<void(const engine::ReceivedMad&)>;

    ShardSet(EventLoop& loop, std::vector<engine::Shard*> shards, EventHandler on_event, MadHandler on_mad);
    ~ShardSet();

    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(links_.size()); }
    [[nodiscard]] engine::Shard& shard(uint32_t index) { return *links_[index].shard; }

    // What the shard told before it finished the call is heard before on_control: once a program knows that an object is
    // gone, no event of it comes any more.
    template <typename OnShard, typename OnControl>
    void submit(uint32_t index, OnShard on_shard, OnControl on_control) {
        auto finish = [this, index, done = std::move(on_control)]() mutable {
            hear_events(index);
            done();
        };
        submit_call(index, std::make_unique<ShardCallOf<OnShard, decltype(finish)>>(std::move(on_shard), std::move(finish)));
    }
    // on_shard(Shard&, index) runs on every shard (each has its own copy); `done` once, after the last of them.
    template <typename OnShard, typename Done>
    void submit_all(OnShard on_shard, Done done) {
        auto left = std::make_shared<uint32_t>(size());
        auto finish = std::make_shared<Done>(std::move(done));
        for (uint32_t i = 0; i < size(); ++i)
            submit(
                i, [on_shard, i](engine::Shard& s) mutable { return on_shard(s, i); },
                [left, finish] {
                    if (--*left == 0) (*finish)();
                });
    }
    // Calls and events that are ready; also done whenever a shard's control_fd is readable.
    void poll();
    [[nodiscard]] size_t in_flight() const { return in_flight_; }

  private:
    struct Link {
        engine::Shard* shard = nullptr;
        std::deque<std::unique_ptr<engine::ShardCall>> backlog;
    };
    void submit_call(uint32_t index, std::unique_ptr<engine::ShardCall> call);
    void pump(Link& link);
    void hear_events(uint32_t index);

    EventLoop& loop_;
    std::deque<Link> links_;  // never moved
    EventHandler on_event_;
    MadHandler on_mad_;
    size_t in_flight_ = 0;
};

}  // namespace rocemu::control
