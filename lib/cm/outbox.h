// SPDX-License-Identifier: BSD-3-Clause
// Outbox: where connections put MADs and events until the caller polls them. Both rings are allocated once.
// A MAD that does not fit is lost as if the wire had lost it: requests have their timer, answers are asked for again.
// Events are never lost: whoever would make one first asks has_event_room (CmManager::handle_*).
#pragma once

#include "base/fixed_ring.h"
#include "cm/counters.h"
#include "cm/event.h"
#include "cm/types.h"

namespace rocemu::cm {

class Outbox {
  public:
    Outbox(uint32_t transmit_capacity, uint32_t event_capacity) : mads_(transmit_capacity), events_(event_capacity) {}

    void send(const Path& path, const Mad& mad) {
        if (mads_.full()) {
            ++counters.drop_transmit_full;
            return;
        }
        ++counters.tx_mads;
        mads_.push(TxMad{.path = path, .mad = mad});
    }
    [[nodiscard]] bool has_event_room() const { return !events_.full(); }
    // Precondition: has_event_room(). The slot holds an earlier event: the caller overwrites all of it.
    Event& add_event() { return events_.push(); }

    FixedRing<TxMad>& mads() { return mads_; }
    FixedRing<Event>& events() { return events_; }

    Counters counters;

  private:
    FixedRing<TxMad> mads_;
    FixedRing<Event> events_;
};

}  // namespace rocemu::cm
