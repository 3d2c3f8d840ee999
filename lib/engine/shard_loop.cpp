// SPDX-License-Identifier: BSD-3-Clause
// The loop of a shard. Each step is bounded and resumable; see docs/architecture.md, "loop of a shard".
#include <algorithm>
#include <array>

#include "engine/shard_impl.h"

namespace rocemu::engine {

namespace {
constexpr uint32_t kDoorbellsPerSession = 256;  // QPs visited a turn: one client cannot hold the shard
constexpr uint32_t kSessionsPerTurn = 64;
constexpr size_t kResultsPerTurn = 64;
constexpr uint32_t kBurstsPerTurn = 8;
// Sent a turn. Frames that are under way beyond a few hundred are in nobody's cache any more when they are received, or
// freed and used again.
constexpr uint32_t kFramesPerTurn = 256;
constexpr uint32_t kFramesInBacklog = 64;  // an eighth of what is received
constexpr uint32_t kBacklogTurns = 64;  // with a backlog, until timers run all the same: more than a port's ring holds
constexpr Duration kBlindSleep = kMillisecond;  // a port that cannot wake us
}  // namespace

// A device that has more than a burst gets more turns, one that goes on having more nearly stops what is sent: a port whose
// ring overflows while we send loses what UC and UD never send again. Not quite, as the other side may do the same; and
// every QP with an ACK to send has its turn.
bool Shard::Impl::receive() {
    bool any = false;
    backlog = false;
    for (auto& d : devices) {
        uint32_t bursts = 0;
        do any |= receiver.run(*d, now);
        while (receiver.full() && ++bursts < kBurstsPerTurn);
        backlog |= receiver.full();
    }
    if (!backlog || ++backlog_turns >= kBacklogTurns) {
        seen = now;
        backlog_turns = 0;
    }
    return any;
}

bool Shard::Impl::scan_doorbells() {
    uint32_t visited = 0;
    const size_t n = std::min<size_t>(session_list.size(), kSessionsPerTurn);
    for (size_t i = 0; i < n; ++i) {
        if (next_session >= session_list.size()) next_session = 0;
        visited += session_list[next_session++]->scan(kDoorbellsPerSession,
                                                      [&](QpRecord& record) { scheduler.activate(record); });
    }
    return visited != 0;
}

bool Shard::Impl::collect_payload() {
    std::array<payload::Result, kResultsPerTurn> results;
    const size_t n = mover.poll(now, results);
    for (size_t i = 0; i < n; ++i) {
        if (results[i].cookie & Placement::kCookieBit) {
            scheduler.activate(placement.handle_result(results[i], now));
        } else {
            scheduler.activate(transmitter.handle_result(results[i], now));
        }
    }
    SessionId session = 0;
    for (payload::Origin origin; mover.take_deferred_fault(session, origin);) {
        QpRecord* record = live.find(origin.qpn);
        if (record != nullptr && record->setup.session == session && record->setup.slot == origin.qp_slot)
            scheduler.deferred_fault(*record, origin.is_recv, now);
    }
    return n != 0;
}

bool Shard::Impl::flush_ports() {
    bool any = false;
    for (auto& d : devices) any |= d->flush(now);
    return any;
}

bool Shard::Impl::turn(Shard& shard, Instant t) {
    now = t;
    bool any = receive();
    any |= mailbox.run(shard);
    any |= scan_doorbells();
    any |= collect_payload();
    any |= scheduler.expire(seen);
    // Before the QPs take what room there is.
    while (QpRecord* resumed = transmitter.send_stalled(now)) scheduler.activate(*resumed);
    any |= scheduler.run(now, seen, backlog ? kFramesInBacklog : kFramesPerTurn);
    any |= flush_ports();
    any |= completions.flush(now);
    load.loops.store(load.loops.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (any) load.busy_loops.store(load.busy_loops.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return any;
}

bool Shard::turn(Instant now) {
    return impl_->turn(*this, now);
}

Instant Shard::Impl::next_deadline() const {
    Instant when = std::min(scheduler.next_deadline(), completions.next_deadline());
    if (mailbox.busy()) when = std::min(when, now + kBlindSleep);  // a call that waits for a process
    for (const auto& d : devices) {
        when = std::min(when, d->setup.port->next_deadline());
        if (d->setup.port->wake_fd() < 0) when = std::min(when, now + kBlindSleep);
    }
    return when;
}

bool Shard::Impl::may_sleep() const {
    if (!scheduler.idle() || mailbox.arrived() || completions.owes() || !mover.idle() || !transmitter.idle()) return false;
    return std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d->tx.empty() && d->loop.empty(); });
}

// Announce, fence, look once more, sleep, withdraw. Whoever gives us work does it the other way round: work, fence,
// look whether we sleep. So one of the two always sees the other.
void Shard::Impl::sleep() {
    waiter.announce();
    for (Session* s : session_list) s->setup.doorbells->sleeping.store(1, std::memory_order_relaxed);
    for (auto& d : devices) d->setup.port->prepare_sleep();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool rung = std::any_of(session_list.begin(), session_list.end(), [](Session* s) { return s->rung(); });
    if (!rung && !mailbox.arrived() && !stop.load() && !receive()) {
        load.sleeps.store(load.sleeps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        waiter.sleep(now, next_deadline());
    }
    for (auto& d : devices) d->setup.port->end_sleep();
    for (Session* s : session_list) s->setup.doorbells->sleeping.store(0, std::memory_order_relaxed);
    waiter.withdraw();
}

void Shard::run() {
    impl_->owner = std::this_thread::get_id();
    while (!impl_->stop.load(std::memory_order_acquire)) {
        const Instant now = read_clock();
        const bool any = impl_->turn(*this, now);
        if (impl_->waiter.after_turn(any, !any && impl_->may_sleep(), now) == Waiter::Advice::Sleep) {
            impl_->now = read_clock();
            impl_->sleep();
        }
    }
}

}  // namespace rocemu::engine
