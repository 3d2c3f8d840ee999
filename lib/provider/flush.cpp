// SPDX-License-Identifier: BSD-3-Clause
// See flush.h.
#include "provider/flush.h"

#include "provider/qp.h"

namespace rocemu::provider {
namespace {

int flush_queue(const Qp& qp, WorkQueue& queue, bool receive, int capacity, ibv_wc* wc) {
    int got = 0;
    uint32_t tail = queue.tail.load(std::memory_order_relaxed);
    const uint32_t head = queue.head.load(std::memory_order_acquire);
    while (got < capacity && tail != head) {
        wc[got] = {};
        // Both WQE layouts begin with the wr_id.
        static_assert(offsetof(abi::SqWqe, wr_id) == 0 && offsetof(abi::RqWqe, wr_id) == 0);
        wc[got].wr_id = *reinterpret_cast<const uint64_t*>(queue.slot(tail));
        wc[got].status = IBV_WC_WR_FLUSH_ERR;
        wc[got].opcode = receive ? IBV_WC_RECV : IBV_WC_SEND;
        wc[got].qp_num = qp.ex.qp_base.qp_num;
        ++got;
        ++tail;
    }
    queue.tail.store(tail, std::memory_order_release);
    return got;
}

}  // namespace

int flush_after_death(Cq& cq, int capacity, ibv_wc* wc) {
    Guard guard(cq.session->objects_lock);
    int got = 0;
    for (const auto& [cookie, qp] : cq.session->qps) {
        if (got == capacity) break;
        if (qp->send_cq() == &cq) got += flush_queue(*qp, qp->sq, false, capacity - got, wc + got);
        if (qp->recv_cq() == &cq) got += flush_queue(*qp, qp->rq, true, capacity - got, wc + got);
    }
    return got;
}

bool Cq::has_work_after_death() const {
    if (looks_ready()) return true;
    for (const auto& [cookie, qp] : session->qps) {
        if (qp->send_cq() == this && qp->sq.outstanding() != 0) return true;
        if (qp->recv_cq() == this && qp->rq.outstanding() != 0) return true;
    }
    return false;
}

}  // namespace rocemu::provider
