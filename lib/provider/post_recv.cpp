// SPDX-License-Identifier: BSD-3-Clause
// ibv_post_recv: WRs into RQ slots. The doorbell is rung too: a QP in the error state flushes what is posted.
#include "provider/qp.h"

namespace rocemu::provider {

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    Qp& qp = *Qp::of(base);
    if (qp.session->state() == SessionState::Forgotten) {  // as when sends are posted
        *bad_wr = wr;
        return EIO;
    }
    Guard guard(qp.rq.lock);
    int rc = 0;
    // IBTA 10.8.3.2; a QP with an SRQ has no queue of its own.
    if (base->state == IBV_QPS_RESET || qp.rq.header == nullptr) rc = EINVAL;
    if (rc != 0) {
        *bad_wr = wr;
        return rc;
    }
    const uint32_t before = qp.rq.head.load(std::memory_order_relaxed);
    uint32_t head = before;
    rc = write_receives(
        qp.rq, wr, bad_wr, [&] { return qp.rq.tail.load(std::memory_order_acquire); }, head);
    if (head != before) qp.publish(qp.rq, head);
    return rc;
}

}  // namespace rocemu::provider
