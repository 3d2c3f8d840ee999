// SPDX-License-Identifier: BSD-3-Clause
// CqRing: this shard's single-producer ring of a completion queue (abi/queues.h): phase bytes, overflow, arming.
// Only `header->consumer` and `header->armed` are read from the application, and nothing is indexed with them.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "engine/setup.h"
#include "transport/io.h"

namespace rocemu::engine {

struct Session;

class CqRing {
  public:
    CqRing(const CqSetup& setup, Session& session)
        : setup_(setup), session_(&session), slots_(reinterpret_cast<abi::Cqe*>(setup.header + 1)) {}

    // Writes one CQE, visible at once. False: it is lost, the ring is full (then broken for good).
    bool write(const transport::Completion& c, uint32_t qpn, uint32_t qp_slot, Instant now);

    enum class Arm { Nothing, Event, Held };
    // After a turn's CQEs: publishes the producer index and takes the arm word if this turn's CQEs fulfil it. Held: they
    // do, but the event waits for more of them, or for event_due() (ibv_modify_cq(3)).
    Arm flush(Instant now);
    [[nodiscard]] Instant event_due() const { return event_due_; }

    // A ring of another size: what the application has not consumed moves to it, from index 0 on, and the arm word too.
    // More than it holds is an overflow.
    void move_to(abi::QueueHeader* header, uint32_t entries);

    [[nodiscard]] const CqSetup& setup() const { return setup_; }
    [[nodiscard]] Session& session() const { return *session_; }
    // Tells the first call after an overflow from the later ones (one IBV_EVENT_CQ_ERR).
    bool take_overflow() {
        const bool first = overflowed_ && !overflow_told_;
        overflow_told_ = overflowed_;
        return first;
    }

    // The flusher's: queued for flush(); an event that did not fit into the notifier's ring.
    CqRing* next_dirty = nullptr;
    bool dirty = false;
    bool event_owed = false;
    bool overflow_owed = false;
    bool event_held = false;  // in the flusher's list of those

  private:
    CqSetup setup_;
    Session* session_;
    abi::Cqe* slots_;
    uint32_t producer_ = 0;
    uint32_t consumer_seen_ = 0;
    bool moderated(uint32_t limits, Instant now);

    bool solicited_ = false;  // among the CQEs since the last flush, or since an event is held
    uint32_t fresh_ = 0;      // CQEs since the last flush
    uint32_t held_ = 0;       // CQEs that an event is held for ...
    Instant event_due_ = kNever;  // ... until then
    bool overflowed_ = false;
    bool overflow_told_ = false;
};

}  // namespace rocemu::engine
