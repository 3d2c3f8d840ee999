// SPDX-License-Identifier: BSD-3-Clause
// Scheduler: the list of QPs that have something to do, and one QP's turn: fetch WQEs, send within a budget, deliver
// completions, arm its timer. Sessions take turns, and within a session its QPs; a QP with more to do goes to the end
// of its list. So a 2 GiB message or a flush of 16k WQEs is many turns and delays nobody, and a process gains nothing
// against others by more QPs or more doorbells.
#pragma once

#include <cstdint>

#include "base/timing_wheel.h"
#include "engine/completions.h"
#include "engine/parking.h"
#include "engine/placement.h"
#include "engine/shard.h"
#include "engine/transmitter.h"

namespace rocemu::engine {

class Scheduler {
  public:
    Scheduler(const ShardConfig& config, Placement& placement, Parking& parking, Transmitter& transmitter,
              Completions& completions)
        : config_(config),
          placement_(placement),
          parking_(parking),
          transmitter_(transmitter),
          completions_(completions) {}

    void activate(QpRecord& record);
    // Turns of one QP each, about one for each QP in the lists now, at most kTurnsPerLoop, until about `frames` were sent;
    // timers of QPs have expired where they were due at `seen` (shard_impl.h). True if any of them did something.
    bool run(Instant now, Instant seen, uint32_t frames);
    // True if timers fired.
    bool expire(Instant seen);
    [[nodiscard]] bool idle() const { return head_ == nullptr; }
    [[nodiscard]] Instant next_deadline() const { return wheel_.next_deadline(); }
    // The program found that memory of one of its receives, or of a READ, was not there (payload::Origin).
    void deferred_fault(QpRecord& record, bool is_recv, Instant now);
    void forget(QpRecord& record);
    void forget(Session& session);  // its QPs are gone

  private:
    static constexpr uint32_t kTurnsPerLoop = 256;
    static constexpr uint32_t kFetchPerTurn = 64;
    static constexpr uint32_t kTimersPerTurn = 256;
    // QPs in the error state flush whatever is posted, also receives, for which no doorbell is promised.
    static constexpr Duration kErrorLook = 20 * kMillisecond;

    // `next` has the next turn.
    static void look_ahead(const QpRecord& next);
    bool serve(QpRecord& record, Instant now, Instant seen);
    void end(QpRecord& record, Instant now);
    bool fetch(QpRecord& record, Instant now, bool& more);
    void arm(QpRecord& record, Instant now);

    ShardConfig config_;
    Placement& placement_;
    Parking& parking_;
    Transmitter& transmitter_;
    Completions& completions_;
    void append(Session& session);

    Session* head_ = nullptr;  // sessions with active QPs
    Session* tail_ = nullptr;
    uint32_t active_ = 0;  // QPs
    uint32_t frames_left_ = 0;  // of this loop
    TimingWheel wheel_;
};

}  // namespace rocemu::engine
