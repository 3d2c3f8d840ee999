// SPDX-License-Identifier: BSD-3-Clause
// Parking: datagrams and UC packets that came before their receive was posted. Nobody sends them again, and a program
// whose CPU is contended posts its receives some milliseconds late: so they wait here, in order, for a moment. What
// waits too long, or finds no place, is handed to the core all the same, which drops and counts it. IBTA 9.8 does not
// say how soon a packet without a receive must be dropped.
#pragma once

#include "base/time.h"
#include "engine/held_frames.h"
#include "engine/placement.h"

namespace rocemu::engine {

class Completions;
struct QpRecord;

class Parking {
  public:
    static constexpr uint32_t kFrames = 8192;
    static constexpr uint32_t kPerQp = kFrames * 3 / 4;  // one process cannot take all places
    static constexpr Duration kPatience = 250 * kMillisecond;
    // Who posts to a shared queue rings for no QP: looked at so often while packets wait for it.
    static constexpr Duration kSrqLook = 100 * kMicrosecond;

    Parking(Placement& placement, Completions& completions) : placement_(placement), completions_(completions) {}

    // Packets of this QP may wait, and there is a place for one.
    [[nodiscard]] bool room_for(const QpRecord& record) const;
    // The frame passes to us and gets data = nullptr. Precondition: room_for().
    void park(QpRecord& record, Frame& frame, Instant now);
    // Hands to the core what can be taken now, and what has waited too long. True if anything was.
    bool deliver(QpRecord& record, Instant now);
    // When deliver must be called at the latest.
    [[nodiscard]] static Instant deadline(const QpRecord& record, Instant now);
    // The QP goes away or starts anew.
    void forget(QpRecord& record);

  private:
    Placement& placement_;
    Completions& completions_;
    HeldFrames frames_{kFrames};
};

}  // namespace rocemu::engine
