// SPDX-License-Identifier: BSD-3-Clause
// ibv_post_recv: WRs into RQ slots. The doorbell is rung too: a QP in the error state flushes what is posted.
#include <cstring>

#include "provider/qp.h"

namespace rocemu::provider {

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    Qp& qp = *Qp::of(base);
    int rc = 0;
    Guard guard(qp.rq.lock);
    if (base->state == IBV_QPS_RESET) rc = EINVAL;  // IBTA 10.8.3.2
    if (qp.session->state() == SessionState::Forgotten) rc = EIO;
    const uint32_t before = qp.rq.head.load(std::memory_order_relaxed);
    uint32_t head = before;
    for (; rc == 0 && wr != nullptr; wr = wr->next) {
        if (head - qp.rq.tail.load(std::memory_order_acquire) >= qp.rq.depth)
            rc = ENOMEM;
        else if (wr->num_sge < 0 || static_cast<uint32_t>(wr->num_sge) > qp.rq.max_sge)
            rc = EINVAL;
        if (rc != 0) break;
        auto& wqe = *reinterpret_cast<abi::RqWqe*>(qp.rq.slot(head));
        wqe = {wr->wr_id, static_cast<uint32_t>(wr->num_sge), 0};
        if (wr->num_sge > 0) std::memcpy(&wqe + 1, wr->sg_list, static_cast<size_t>(wr->num_sge) * sizeof(ibv_sge));
        ++head;
    }
    if (rc != 0) *bad_wr = wr;
    if (head != before) qp.publish(qp.rq, head);
    return rc;
}

}  // namespace rocemu::provider
