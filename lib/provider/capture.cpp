// SPDX-License-Identifier: BSD-3-Clause
// See capture.h.
#include "provider/capture.h"

#include <new>

#include "guard/fault_guard.h"
#include "provider/qp.h"

namespace rocemu::provider {
namespace {

constexpr uint32_t kPublishBytes = 64u << 10;   // the daemon begins with what is there
constexpr uint32_t kBytesPerPoll = 256u << 10;  // a poll stays short
constexpr uint32_t kMaxHeld = abi::kStageBytes / abi::kStageBlock / 2;

abi::SqWqe& wqe_at(const Qp& qp, uint32_t index) { return *reinterpret_cast<abi::SqWqe*>(qp.sq.slot(index)); }
const abi::WqeSge* sges_of(const abi::SqWqe& wqe) { return reinterpret_cast<const abi::WqeSge*>(&wqe + 1); }

bool is_kind(const abi::SqWqe& wqe, abi::PayloadKind kind) { return wqe.payload_kind == static_cast<uint8_t>(kind); }

// The daemon is done with everything below; an index that cannot be is not believed.
uint32_t done_below(const Qp& qp) {
    const uint32_t from = qp.capture.reclaimed;
    const uint32_t posted = qp.sq.head.load(std::memory_order_acquire) - from;
    const uint32_t retired = qp.sq.header->retired.load(std::memory_order_acquire) - from;
    const uint32_t polled = qp.sq.tail.load(std::memory_order_relaxed) - from;
    uint32_t done = retired <= posted ? retired : 0;
    if (polled <= posted && polled > done) done = polled;
    return from + done;
}

void reclaim(Qp& qp) {
    CaptureState& c = qp.capture;
    Guard guard(c.lock);
    for (const uint32_t to = done_below(qp); c.reclaimed != to; ++c.reclaimed) {
        Extent& extent = c.extents[c.reclaimed & qp.sq.mask];
        if (extent.blocks == 0) continue;
        qp.session->stage().free(extent);
        c.held.store(c.held.load(std::memory_order_relaxed) - extent.blocks, std::memory_order_relaxed);
        extent = {};
    }
}

// IBTA 10.8.3.3: what stands behind a fence begins when the READs and atomics before it have ended. Data they bring may
// be what is sent: it is not copied before.
bool behind_fence(Qp& qp) {
    CaptureState& c = qp.capture;
    if (!c.fenced) return false;
    const uint32_t retired = qp.sq.header->retired.load(std::memory_order_acquire);
    if (static_cast<int32_t>(retired - c.fence) <= 0) return true;
    qp.session->receive_stage().drain();
    c.fenced = false;
    if (c.newest_read == c.fence) c.reads = false;
    return false;
}

bool fits_into_slot(const Qp& qp, const abi::SqWqe& wqe, uint32_t length) {
    return sizeof wqe + wqe.num_sge * sizeof(abi::WqeSge) + length <= qp.sq.stride;
}

// May this WQE be captured, now or later? Keeps the fence's books.
bool eligible(Qp& qp, const abi::SqWqe& wqe, uint32_t index) {
    CaptureState& c = qp.capture;
    if ((wqe.flags & IBV_SEND_FENCE) != 0 && c.reads) {
        c.fenced = true;
        c.fence = c.newest_read;
    }
    switch (static_cast<ibv_wr_opcode>(wqe.opcode)) {
        case IBV_WR_SEND:
        case IBV_WR_SEND_WITH_IMM:
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM: break;
        case IBV_WR_RDMA_READ:
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
        case IBV_WR_ATOMIC_WRITE:  // brings no data, but a fence waits for it too
            c.reads = true;
            c.newest_read = index;
            return false;
        default: return false;
    }
    if (!is_kind(wqe, abi::PayloadKind::Sges) || (wqe.flags & IBV_SEND_FENCE) != 0 || behind_fence(qp)) return false;
    uint64_t total = 0;
    bool mapped = true;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
        const abi::WqeSge& sge = sges_of(wqe)[i];
        total += sge.length;
        if (sge.length == 0) continue;
        if (qp.session->mrs().find(sge.lkey, sge.addr, sge.length) == nullptr) return false;
        mapped = mapped && qp.session->mrs().is_mapped(sge.lkey, sge.addr, sge.length);
    }
    if (total == 0 || total > abi::kMaxCapture) return false;
    // The daemon reads it where it lies in one pass, as it would what we had copied. What fits into the slot comes with it.
    return !mapped || fits_into_slot(qp, wqe, static_cast<uint32_t>(total));
}

uint32_t length_of(const abi::SqWqe& wqe) {
    uint32_t total = 0;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) total += sges_of(wqe)[i].length;
    return total;
}

bool copy_payload(const Qp& qp, const abi::SqWqe& wqe, std::byte* to) {
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
        const abi::WqeSge sge = sges_of(wqe)[i];
        if (sge.length == 0) continue;
        const std::byte* from = qp.session->mrs().find(sge.lkey, sge.addr, sge.length);
        if (from == nullptr || !guard::copy(to, from, sge.length)) return false;
        to += sge.length;
    }
    return true;
}

void set_stage_ref(abi::SqWqe& wqe, uint64_t ref) {
    // Release: the bytes are there (partner: the shard's acquire load).
    std::atomic_ref(wqe.stage_ref).store(ref, std::memory_order_release);
}

enum class Tried { Captured, NoRoom, Unreadable };

// Copies the payload of the staged WQE `index`; the send queue's lock is held.
Tried capture(Qp& qp, uint32_t index, uint32_t length) {
    abi::SqWqe& wqe = wqe_at(qp, index);
    if (fits_into_slot(qp, wqe, length)) {
        const size_t behind = sizeof wqe + wqe.num_sge * sizeof(abi::WqeSge);
        if (!copy_payload(qp, wqe, reinterpret_cast<std::byte*>(&wqe) + behind)) return Tried::Unreadable;
        set_stage_ref(wqe, abi::kStageReady | abi::kStageInSlot);
        return Tried::Captured;
    }
    Stage& stage = qp.session->stage();
    CaptureState& c = qp.capture;
    const auto allowed = [&] { return c.held.load(std::memory_order_relaxed) < kMaxHeld; };
    Extent extent = allowed() ? stage.allocate(length) : Extent{};
    if (extent.blocks == 0) {
        reclaim(qp);
        if (allowed()) extent = stage.allocate(length);
        if (extent.blocks == 0) return Tried::NoRoom;
    }
    if (!copy_payload(qp, wqe, stage.at(extent))) {
        stage.free(extent);
        return Tried::Unreadable;
    }
    {
        Guard guard(c.lock);
        if (c.held.load(std::memory_order_relaxed) == 0) c.reclaimed = index;  // nothing before it holds anything
        c.extents[index & qp.sq.mask] = extent;
        c.held.store(c.held.load(std::memory_order_relaxed) + extent.blocks, std::memory_order_relaxed);
    }
    set_stage_ref(wqe, abi::kStageReady | Stage::offset(extent));
    return Tried::Captured;
}

void append(Cq& cq, Qp& qp) {
    Guard guard(cq.pending_lock);
    qp.capture.next_pending = nullptr;
    (cq.pending_head == nullptr ? cq.pending_head : cq.pending_tail->capture.next_pending) = &qp;
    cq.pending_tail = &qp;
    cq.pending.store(true, std::memory_order_relaxed);
}

Qp* take_first(Cq& cq) {
    Guard guard(cq.pending_lock);
    Qp* qp = cq.pending_head;
    if (qp == nullptr) return nullptr;
    cq.pending_head = qp->capture.next_pending;
    cq.pending.store(cq.pending_head != nullptr, std::memory_order_relaxed);
    return qp;
}

// One QP's turn; its send queue's lock is held. Takes what it copied from `budget`; false: the stage is full.
bool capture_turn(Qp& qp, uint32_t& budget) {
    CaptureState& c = qp.capture;
    const uint32_t head = qp.sq.head.load(std::memory_order_relaxed);
    const uint32_t fetched = qp.sq.header->consumer.load(std::memory_order_relaxed);
    // The daemon did not wait: what it has is not captured any more.
    if (fetched - c.next <= head - c.next) c.next = fetched;
    bool room = true, rung = false;
    for (; c.next != head && budget != 0; ++c.next) {
        abi::SqWqe& wqe = wqe_at(qp, c.next);
        if (!is_kind(wqe, abi::PayloadKind::Staged) || wqe.stage_ref != 0) continue;
        const uint32_t length = length_of(wqe);
        const Tried tried = capture(qp, c.next, length);
        room = tried != Tried::NoRoom;
        if (!room) break;
        if (tried == Tried::Unreadable) continue;  // the daemon will find out, when it is tired of waiting
        budget -= length < budget ? length : budget;
        rung = true;
    }
    if (rung && qp.session->alive()) qp.session->ring(qp.shard, qp.slot);
    return room;
}

}  // namespace

void set_up_capture(Qp& qp) {
    const ibv_qp_type type = qp.base()->qp_type;
    const bool acknowledged = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
    if (!qp.session->stage().there() || !acknowledged || qp.sq.header == nullptr) return;
    qp.capture.extents = new (std::nothrow) Extent[size_t{qp.sq.mask} + 1]{};
}

void capture_and_publish(Qp& qp, uint32_t head) {
    CaptureState& c = qp.capture;
    if (c.extents == nullptr) return qp.publish(qp.sq, head);
    uint32_t fresh = 0;  // bytes captured and not published yet
    for (uint32_t i = qp.sq.head.load(std::memory_order_relaxed); i != head; ++i) {
        abi::SqWqe& wqe = wqe_at(qp, i);
        if (!eligible(qp, wqe, i)) continue;
        const uint32_t length = length_of(wqe);
        const Tried tried = c.pending ? Tried::NoRoom : capture(qp, i, length);
        if (tried == Tried::Unreadable) continue;
        wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Staged);
        if (tried == Tried::NoRoom) {
            if (!c.pending) {
                c.pending = true;
                c.next = i;
                append(*qp.send_cq(), qp);
            }
            continue;
        }
        fresh += length;
        if (fresh < kPublishBytes) continue;
        qp.publish(qp.sq, i + 1);
        fresh = 0;
    }
    qp.publish(qp.sq, head);
}

void reclaim_captured(Qp& qp) {
    if (qp.capture.held.load(std::memory_order_relaxed) != 0) reclaim(qp);
}

void capture_waiting(Cq& cq) {
    if (!cq.pending.load(std::memory_order_relaxed)) return;
    Qp* first = nullptr;
    for (uint32_t budget = kBytesPerPoll; budget != 0;) {
        Qp* qp = take_first(cq);
        if (qp == nullptr) return;
        // Whoever holds the lock is posting.
        if (!qp->sq.lock.try_lock()) return append(cq, *qp);
        const bool room = capture_turn(*qp, budget);
        qp->capture.pending = qp->capture.next != qp->sq.head.load(std::memory_order_relaxed);
        if (qp->capture.pending) append(cq, *qp);
        qp->sq.lock.unlock();
        if (!room || qp == first) return;
        if (first == nullptr) first = qp;
    }
}

void stop_waiting_captures(Qp& qp) {
    if (!qp.capture.pending) return;
    qp.capture.pending = false;
    Cq& cq = *qp.send_cq();
    Guard guard(cq.pending_lock);
    Qp* before = nullptr;
    Qp* at = cq.pending_head;
    for (; at != nullptr && at != &qp; at = at->capture.next_pending) before = at;
    if (at != nullptr) {
        (before == nullptr ? cq.pending_head : before->capture.next_pending) = qp.capture.next_pending;
        if (cq.pending_tail == &qp) cq.pending_tail = before;
    }
    cq.pending.store(cq.pending_head != nullptr, std::memory_order_relaxed);
}

void forget_captured(Qp& qp) {
    CaptureState& c = qp.capture;
    if (c.extents == nullptr) return;
    stop_waiting_captures(qp);
    Guard guard(c.lock);
    for (uint32_t i = 0; i <= qp.sq.mask; ++i) {
        if (c.extents[i].blocks != 0) qp.session->stage().free(c.extents[i]);
        c.extents[i] = {};
    }
    c.held.store(0, std::memory_order_relaxed);
    c.reclaimed = c.next = 0;
    c.reads = c.fenced = false;
}

}  // namespace rocemu::provider
