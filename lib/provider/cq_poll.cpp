// SPDX-License-Identifier: BSD-3-Clause
// ibv_poll_cq: merges the rings of the shards, turns CQEs into work completions and frees the slots of the work queues
// they complete. No lock but the CQ's own. After the daemon's death the provider completes what was posted.
#include <cstddef>
#include <cstring>

#include "base/verbs_types.h"
#include "provider/cq.h"
#include "provider/flush.h"
#include "provider/qp.h"
#include "provider/waiting.h"

namespace rocemu::provider {
namespace {

// False: the CQE belongs to nothing any more and is skipped.
bool accept(const Session& session, const abi::Cqe& cqe) {
    if (cqe.qp_slot == abi::kSrqSlot) return true;
    if (cqe.qp_slot >= abi::kMaxQpsPerSession) return false;
    const QpSlot& slot = session.qp_slot(cqe.qp_slot);
    // The number first: a slot is used again by another QP, perhaps of other CQs, a QP number not for a long time.
    if (slot.qpn.load(std::memory_order_relaxed) != cqe.qpn) return false;
    Qp* qp = slot.qp.load(std::memory_order_relaxed);
    if (qp == nullptr) return false;
    (cqe.is_recv != 0 ? qp->rq : qp->sq).complete(cqe.wqe_index);  // with an SRQ rq is empty: nothing happens
    if (cqe.is_recv == 0) reclaim_captured(*qp);
    return true;
}

void convert(const abi::Cqe& cqe, ibv_wc& wc) {
    wc.wr_id = cqe.wr_id;
    wc.status = static_cast<ibv_wc_status>(cqe.status);
    wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
    wc.vendor_err = cqe.vendor_err;
    wc.byte_len = cqe.byte_len;
    wc.imm_data = cqe.imm_data;
    wc.qp_num = cqe.qpn;
    wc.src_qp = cqe.src_qp;
    wc.wc_flags = cqe.wc_flags;
    wc.pkey_index = cqe.pkey_index;
    wc.slid = cqe.slid;
    wc.sl = cqe.sl;
    wc.dlid_path_bits = 0;
}

int take_from(Session& session, CqRing& ring, int capacity, ibv_wc* wc, uint64_t* timestamps) {
    const uint32_t before = ring.consumer;
    int got = 0;
    while (got < capacity) {
        const abi::Cqe* cqe = ring.front();
        if (cqe == nullptr) break;
        ++ring.consumer;
        // What was received before this CQE was written is in its place before the program learns of it, whatever CQ or
        // QP it came by: one completion may tell of another.
        session.receive_stage().drain();
        if (!accept(session, *cqe)) continue;
        convert(*cqe, wc[got]);
        if (wc[got].status == IBV_WC_SUCCESS && session.receive_stage().failed(cqe->qpn, cqe->is_recv != 0, cqe->wqe_index))
            wc[got].status = IBV_WC_LOC_PROT_ERR;
        if (timestamps != nullptr) timestamps[got] = cqe->timestamp_ns;
        ++got;
    }
    // Frees the slots: partner is the shard's acquire load before it writes a CQE.
    if (ring.consumer != before) ring.header->consumer.store(ring.consumer, std::memory_order_release);
    return got;
}

}  // namespace

int Cq::take(int capacity, ibv_wc* wc, uint64_t* timestamps) {
    int got = 0;
    for (uint32_t i = 0; i < ring_count && got < capacity; ++i) {
        CqRing& ring = rings[next_ring];
        got += take_from(*session, ring, capacity - got, wc + got, timestamps != nullptr ? timestamps + got : nullptr);
        if (got < capacity) next_ring = next_ring + 1 == ring_count ? 0 : next_ring + 1;
    }
    if (got == 0) session->receive_stage().drain_if_free();
    capture_waiting(*this);
    if (got < capacity && session->state() == SessionState::Dead) {
        const int flushed = flush_after_death(*this, capacity - got, wc + got);
        if (timestamps != nullptr) std::memset(timestamps + got, 0, static_cast<size_t>(flushed) * sizeof *timestamps);
        got += flushed;
    }
    return got;
}

void Cq::strike_out(uint32_t qpn) {
    for (uint32_t r = 0; r < ring_count; ++r) {
        CqRing& ring = rings[r];
        uint32_t end = ring.consumer;
        while (end - ring.consumer <= ring.mask && ring.at(end) != nullptr) ++end;
        // This side owns a written CQE until it frees the slot: those that stay move up to the end. The phase is the slot's.
        uint32_t first = end;
        for (uint32_t i = end; i-- != ring.consumer;) {
            const abi::Cqe* cqe = ring.at(i);
            if (cqe->qpn != qpn && --first != i) std::memcpy(static_cast<void*>(ring.at(first)), cqe, offsetof(abi::Cqe, phase));
        }
        if (first == ring.consumer) continue;
        ring.consumer = first;
        ring.header->consumer.store(first, std::memory_order_release);  // partner: as in take_from
    }
}

bool Cq::looks_ready() const {
    for (uint32_t i = 0; i < ring_count; ++i)
        if (rings[i].front() != nullptr) return true;
    return false;
}

int poll_cq(ibv_cq* base, int capacity, ibv_wc* wc) {
    Cq* cq = Cq::of(base);
    if (cq->session->state() == SessionState::Forgotten) return fail_minus_one(EIO);
    if (capacity <= 0) return 0;
    int got;
    {
        Guard guard(cq->lock);
        got = cq->take(capacity, wc);
    }
    if (got > 0) {
        found_work();
        return got;
    }
    if (!wait_after_empty_poll(*cq)) return 0;
    Guard guard(cq->lock);
    got = cq->take(capacity, wc);
    if (got > 0) found_work();
    return got;
}

}  // namespace rocemu::provider
