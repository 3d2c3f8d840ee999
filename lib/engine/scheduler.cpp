// SPDX-License-Identifier: BSD-3-Clause
// See scheduler.h.
#include "engine/scheduler.h"

#include <algorithm>

#include "engine/qp_record.h"
#include "engine/rq_reader.h"
#include "engine/sq_reader.h"

namespace rocemu::engine {

namespace {

// IBTA 10.3.1: from RTS on send WQEs are looked at (SQD holds them back, SQE and ERR flush them).
bool takes_sends(QpState state) {
    return state == QpState::Rts || state == QpState::Sqd || state == QpState::Sqe || state == QpState::Err;
}

}  // namespace

void Scheduler::append(Session& session) {
    session.active = true;
    session.next_active = nullptr;
    (head_ == nullptr ? head_ : tail_->next_active) = &session;
    tail_ = &session;
}

void Scheduler::activate(QpRecord& record) {
    if (record.active || record.dying) return;
    record.active = true;
    record.next_active = nullptr;
    Session& session = *record.session;
    (session.active_head == nullptr ? session.active_head : session.active_tail->next_active) = &record;
    session.active_tail = &record;
    ++active_;
    if (!session.active) append(session);
}

void Scheduler::forget(QpRecord& record) {
    wheel_.cancel(record.timer);
    if (!record.active) return;
    Session& session = *record.session;
    QpRecord* previous = nullptr;
    for (QpRecord* r = session.active_head; r != &record; r = r->next_active) previous = r;
    (previous == nullptr ? session.active_head : previous->next_active) = record.next_active;
    if (session.active_tail == &record) session.active_tail = previous;
    record.active = false;
    --active_;
}

void Scheduler::forget(Session& session) {
    if (!session.active) return;
    Session* previous = nullptr;
    for (Session* s = head_; s != &session; s = s->next_active) previous = s;
    (previous == nullptr ? head_ : previous->next_active) = session.next_active;
    if (tail_ == &session) tail_ = previous;
    session.active = false;
}

void Scheduler::look_ahead(const QpRecord& next) {
    next.prefetch_queues();
    const QpRecord* second = next.next_active;
    if (second == nullptr) return;
    second->prefetch_state();
    if (second->next_active != nullptr) second->next_active->prefetch();
}

bool Scheduler::run(Instant now, Instant seen, uint32_t frames) {
    bool any = false;
    frames_left_ = frames;
    for (uint32_t turns = std::min(active_, kTurnsPerLoop); turns > 0 && frames_left_ > 0 && head_ != nullptr;) {
        Session& session = *head_;
        head_ = session.next_active;
        if (head_ == nullptr) tail_ = nullptr;
        session.active = false;
        QpRecord* record = session.active_head;
        if (record == nullptr) continue;  // its last active QP went away
        session.active_head = record->next_active;
        if (session.active_head == nullptr) session.active_tail = nullptr;
        record->active = false;
        --active_;
        --turns;
        if (session.active_head != nullptr) {
            look_ahead(*session.active_head);
            append(session);
        }
        any |= serve(*record, now, seen);
    }
    return any;
}

bool Scheduler::expire(Instant seen) {
    return wheel_.expire(seen, kTimersPerTurn,
                         [&](TimerNode& node) { activate(*static_cast<QpTimer&>(node).record); }) != 0;
}

// To ERR, with what it had in flight.
void Scheduler::end(QpRecord& record, Instant now) {
    transport::QpAttr attr;
    attr.state = QpState::Err;
    record.qp.modify(attr, qp_attr_mask::kState, now);
}

void Scheduler::deferred_fault(QpRecord& record, bool is_recv, Instant now) {
    const QpState state = record.qp.state();
    if (state == QpState::Err || state == QpState::Reset) return;
    end(record, now);
    if (is_recv) completions_.raise(record, AsyncEvent::QpFatal);
    activate(record);
}

bool Scheduler::fetch(QpRecord& record, Instant now, bool& more) {
    if (record.broken) return false;
    const QpState state = record.qp.state();
    bool broken = false;
    bool any = false;
    if (takes_sends(state)) {
        const FetchResult f = fetch_sends(record, kFetchPerTurn, now);
        broken |= f.broken;
        any |= f.fetched != 0;
        more |= f.more && record.qp.send_room() != 0;
    }
    if (state == QpState::Err) {
        const uint32_t before = record.rq.consumer;
        broken |= !top_up_receives(record);
        any |= record.rq.consumer != before;
        more |= record.rq.consumer != before;
    }
    if (broken) {
        record.broken = true;  // the application wrote nonsense
        end(record, now);
        completions_.raise(record, AsyncEvent::QpFatal);
        any = true;
    }
    return any;
}

bool Scheduler::serve(QpRecord& record, Instant now, Instant seen) {
    if (record.dying || record.quiesced) return false;
    bool more = false;
    // The core may have moved its deadline since the timer was set: it is not moved for each ACK, only looked at again.
    if (record.qp.next_deadline() <= seen) record.qp.handle_timeout(now);
    bool any = fetch(record, now, more);
    any |= placement_.run(record, {}, now);
    any |= parking_.deliver(record, now);
    if (record.may_transmit() && !record.gathering) {
        if (transmitter_.ready(record)) {
            const auto sent = transmitter_.run(record, config_.qp_turn_bytes, now);
            any |= sent.packets != 0;
            frames_left_ -= std::min(frames_left_, sent.packets);
            more |= sent.more;
        } else {
            more = true;  // the device is backed up: stay in the list
        }
    }
    // IBTA 10.3.1.7: in ERR what is posted is flushed. But a buffer that was given back may be written again, so not
    // before nothing reads it any more; the gather's result activates the QP. (What is written is the core's to wait
    // for.)
    const bool flushes_later = record.reads_memory && record.qp.state() == QpState::Err;
    const bool completed = !flushes_later && completions_.collect(record, now);
    any |= completed;
    // Completions make room for WQEs that wait in the queues, and so for packets that wait for a receive.
    more |= completed && record.parked.head != nullptr;
    if (any && !record.broken && takes_sends(record.qp.state()) && record.sq.available() != 0 &&
        record.qp.send_room() != 0 && record.capture.due == kNever)
        more = true;
    more |= Placement::owes(record) && record.jobs_head == nullptr;  // refused a job, and no result will come
    arm(record, now);
    if (more) activate(record);
    return any;
}

void Scheduler::arm(QpRecord& record, Instant now) {
    Instant when = std::min({record.qp.next_deadline(), record.capture.due, Parking::deadline(record, now)});
    if (!record.gathering) when = std::min(when, record.pace.due);
    if (record.qp.state() == QpState::Err && !record.broken) when = std::min(when, now + kErrorLook);
    if (when == kNever) return wheel_.cancel(record.timer);
    if (when <= now) {
        // Due already (for example: more to send than a batch held): the next loop.
        wheel_.cancel(record.timer);
        return activate(record);
    }
    // An armed timer that fires earlier is left alone: it looks again when it fires.
    if (record.timer.armed() && record.timer.when <= when) return;
    wheel_.set(record.timer, when);
}

}  // namespace rocemu::engine
