// SPDX-License-Identifier: BSD-3-Clause
// See completions.h.
#include "engine/completions.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "abi/messages.h"
#include "engine/qp_record.h"
#include "engine/srq.h"

namespace rocemu::engine {

namespace {
constexpr size_t kAsyncBacklog = 65536;

// Shared futex: the waiter is another process.
void futex_wake_all(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
}  // namespace

void Completions::write(QpRecord& record, const transport::Completion& c, Instant now) {
    if (!c.is_recv) record.retired = c.index + 1;
    if (!c.visible) return;
    CqRing* to = c.is_recv ? record.recv_cq : record.send_cq;
    uint32_t slot = record.setup.slot;
    uint32_t context = record.setup.context;
    if (c.is_recv && record.is_xrc_target()) {
        // IBTA A14: where the SRQ says, which may be another program's; it may also be gone.
        const SrqRecord* srq = record.session->find_xrc_srq(c.srq);
        to = srq == nullptr ? nullptr : srq->cq;
        slot = abi::kSrqSlot;
        if (srq != nullptr) context = srq->setup.context;
    }
    if (to == nullptr) return;
    CqRing& ring = *to;
    if (!ring.write(c, record.setup.config.qpn, slot, now)) {
        if (ring.take_overflow()) {
            record.device->counters.add(stats::Counter::cq_overflow);
            post({ShardEventKind::Async,
                  AsyncEvent::CqErr,
                  ring.setup().session,
                  context,
                  ring.setup().cookie,
                  {},
                  {}});
        }
        return;
    }
    if (!ring.dirty) {
        ring.dirty = true;
        ring.next_dirty = dirty_;
        dirty_ = &ring;
    }
}

bool Completions::collect(QpRecord& record, Instant now) {
    bool any = false;
    bool more = true;
    const uint32_t retired = record.retired;
    while (more) {  // bounded by the core's windows
        batch_.clear();
        more = record.qp.poll_completions(batch_);
        for (uint32_t i = 0; i < batch_.count; ++i) write(record, batch_.items[i], now);
        any |= batch_.count != 0;
        if (batch_.count == 0) break;
    }
    // Release: nothing of what they staged is read behind this (partner: the provider's acquire load).
    if (record.retired != retired && record.sq.view.header != nullptr)
        record.sq.view.header->retired.store(record.retired, std::memory_order_release);
    while (const auto event = record.qp.poll_event()) {
        raise(record, *event);
        any = true;
    }
    return any;
}

void Completions::raise(const QpRecord& record, AsyncEvent event) {
    post({ShardEventKind::Async, event, record.setup.session, record.setup.context, record.setup.cookie, {}, {}});
}

void Completions::raise(const SrqRecord& srq, AsyncEvent event) {
    post({ShardEventKind::Async, event, srq.setup.session, srq.setup.context, srq.setup.cookie, {}, {}});
}

// A client that makes events faster than control takes them loses its events, nobody else's memory.
void Completions::post(const ShardEvent& event) {
    if (async_backlog_.empty() && notifier_.post(event)) return;
    if (async_backlog_.size() < kAsyncBacklog) async_backlog_.push_back(event);
}

bool Completions::settle(CqRing& ring) {
    ShardEvent event;
    event.kind = ShardEventKind::Completion;
    event.session = ring.setup().session;
    event.object = ring.setup().channel;
    event.cookie = ring.setup().cookie;
    return notifier_.post(event);
}

// The program's completion channel, if this is the moment.
void Completions::tell(CqRing& ring, Instant now) {
    const CqRing::Arm arm = ring.flush(now);
    if (ring.setup().channel == abi::kNoChannel) return;
    if (arm == CqRing::Arm::Held) {
        next_held_ = std::min(next_held_, ring.event_due());
        if (!ring.event_held) held_.push_back(&ring);
        ring.event_held = true;
        return;
    }
    if (arm == CqRing::Arm::Event && !ring.event_owed && !settle(ring)) {
        ring.event_owed = true;
        owed_.push_back(&ring);
    }
}

void Completions::release_held(Instant now) {
    next_held_ = kNever;
    std::vector<CqRing*> rings;
    rings.swap(held_);
    for (CqRing* ring : rings) {
        ring->event_held = false;
        tell(*ring, now);  // holds it again, tells, or finds that it was told
    }
}

bool Completions::flush(Instant now) {
    now_ = now;
    if (dirty_ == nullptr && !owes() && now < next_held_) return false;
    if (!async_backlog_.empty()) {
        const auto rest = std::find_if_not(async_backlog_.begin(), async_backlog_.end(),
                                           [&](const ShardEvent& e) { return notifier_.post(e); });
        async_backlog_.erase(async_backlog_.begin(), rest);
    }
    while (!owed_.empty() && settle(*owed_.back())) {
        owed_.back()->event_owed = false;
        owed_.pop_back();
    }
    for (CqRing* ring = dirty_; ring != nullptr; ring = ring->next_dirty) {
        ring->dirty = false;
        tell(*ring, now);
        Session& session = ring->session();
        if (!session.wake_owed) {
            session.wake_owed = true;
            to_wake_.push_back(&session);
        }
    }
    dirty_ = nullptr;
    if (now >= next_held_) release_held(now);
    // CqRing::flush has fenced: either the sleeper sees the CQE or we see the sleeper.
    for (Session* session : to_wake_) {
        session->wake_owed = false;
        abi::SessionPage* page = session->setup.page;
        if (page == nullptr || page->cq_sleepers.load(std::memory_order_relaxed) == 0) continue;
        page->cq_wake.fetch_add(1);
        futex_wake_all(page->cq_wake);
    }
    to_wake_.clear();
    return true;
}

void Completions::forget(CqRing& ring) {
    if (ring.dirty) flush(now_);
    std::erase(owed_, &ring);
    std::erase(held_, &ring);
}

}  // namespace rocemu::engine
