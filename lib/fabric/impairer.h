// SPDX-License-Identifier: BSD-3-Clause
// Impairer: applies Impairments to a stream of frames. Frames that wait (delay, reordering, or a full receiver) stand
// in one bounded list in the order in which they may leave.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/port.h"
#include "fabric/impairments.h"
#include "stats/counters.h"

namespace rocemu::fabric {

class Impairer {
  public:
    static constexpr size_t kMaxWaiting = 4096;
    static constexpr Duration kReorderHold = 100 * kMicrosecond;

    Impairer(engine::FramePool& pool, stats::CounterBlock& counters) : pool_(pool), counters_(counters) {
        waiting_.reserve(kMaxWaiting + 2);
    }
    ~Impairer();

    void configure(const Impairments& settings, uint64_t stream);
    // Nothing to do to any frame and none waits: the caller may forward directly.
    [[nodiscard]] bool transparent() const { return !active_ && waiting_.empty(); }
    [[nodiscard]] bool full() const { return waiting_.size() >= kMaxWaiting; }
    // Takes the frame. Precondition: !full().
    void take(Instant now, engine::Frame frame);
    // The frame that may leave now, or nullptr. After it has left: pop().
    engine::Frame* ready(Instant now);
    void pop();
    [[nodiscard]] Instant next_deadline() const;

  private:
    struct Waiting {
        engine::Frame frame;
        Instant due;
        uint32_t behind = 0;  // reordered: how many later frames must leave before it
    };
    uint64_t random();
    bool hit(uint32_t ppm, uint32_t draw, uint32_t& base) const;
    void corrupt(engine::Frame& frame);

    engine::FramePool& pool_;
    stats::CounterBlock& counters_;
    Impairments settings_;
    bool active_ = false;
    uint64_t state_ = 0x9E3779B97F4A7C15ull;
    size_t ready_index_ = 0;
    std::vector<Waiting> waiting_;
};

}  // namespace rocemu::fabric
