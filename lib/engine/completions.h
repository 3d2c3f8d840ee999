// SPDX-License-Identifier: BSD-3-Clause
// Completions: from the core's completions and events to CQEs, completion channel events and asynchronous events.
// Everything is published once per turn, by flush().
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "base/verbs_types.h"
#include "engine/notifier.h"
#include "transport/io.h"

namespace rocemu::engine {

class CqRing;
struct QpRecord;
struct SrqRecord;
struct Session;

class Completions {
  public:
    explicit Completions(Notifier& notifier) : notifier_(notifier) { async_backlog_.reserve(64); }

    // Takes all the QP's completions and events. True if there were any.
    bool collect(QpRecord& record, Instant now);
    // End of a turn: arm words, events, sleepers in ibv_poll_cq.
    bool flush(Instant now);
    // When flush() has something to do without new completions: events that are held back.
    [[nodiscard]] Instant next_deadline() const { return next_held_; }
    // Events that found the notifier full wait here.
    [[nodiscard]] bool owes() const { return !owed_.empty() || !async_backlog_.empty(); }
    void raise(const QpRecord& record, AsyncEvent event);
    void raise(const SrqRecord& srq, AsyncEvent event);
    // The ring goes away: forget it.
    void forget(CqRing& ring);

  private:
    void write(QpRecord& record, const transport::Completion& c, Instant now);
    void post(const ShardEvent& event);
    bool settle(CqRing& ring);
    void tell(CqRing& ring, Instant now);
    void release_held(Instant now);

    Notifier& notifier_;
    CqRing* dirty_ = nullptr;    // written in this turn
    std::vector<CqRing*> owed_;  // an event of theirs waits for room in the notifier
    std::vector<CqRing*> held_;  // an event of theirs waits for its time ...
    Instant next_held_ = kNever;  // ... the first of them, or earlier
    Instant now_{0};  // of the last flush
    std::vector<ShardEvent> async_backlog_;
    std::vector<Session*> to_wake_;
    transport::CompletionBatch batch_;
};

}  // namespace rocemu::engine
