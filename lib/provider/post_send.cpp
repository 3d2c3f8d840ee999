// SPDX-License-Identifier: BSD-3-Clause
// ibv_post_send: WRs into SQ slots, one doorbell for the list. What can be told from the WR alone is refused here with an
// errno value (ibv_post_send(3)); keys and addresses are judged by the daemon and end in completions.
#include <cstring>

#include "base/verbs_types.h"
#include "provider/ah.h"
#include "provider/qp.h"

namespace rocemu::provider {
namespace {

constexpr unsigned kKnownFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

bool opcode_allowed(ibv_qp_type type, ibv_wr_opcode opcode) {
    const bool acknowledged = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
    switch (opcode) {
        case IBV_WR_SEND: return true;  // every transport
        case IBV_WR_SEND_WITH_IMM: return type != IBV_QPT_RAW_PACKET;
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
        case IBV_WR_BIND_MW:
        case IBV_WR_LOCAL_INV: return acknowledged || type == IBV_QPT_UC;
        case IBV_WR_RDMA_READ:
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
        case IBV_WR_ATOMIC_WRITE:
        case IBV_WR_SEND_WITH_INV: return acknowledged;
        default: return false;
    }
}

bool reads_memory(ibv_wr_opcode opcode) {
    return opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
           opcode != IBV_WR_ATOMIC_FETCH_AND_ADD && opcode != IBV_WR_BIND_MW && opcode != IBV_WR_LOCAL_INV;
}

// The payload, copied while the application waits: its buffers are free when the call returns. 0 or errno.
int write_inline(const Qp& qp, const ibv_send_wr& wr, abi::SqWqe& wqe) {
    auto* out = reinterpret_cast<std::byte*>(&wqe + 1);
    uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge& sge = wr.sg_list[i];
        if (length + sge.length > qp.max_inline) return EINVAL;
        std::memcpy(out + length, reinterpret_cast<const void*>(sge.addr), sge.length);
        length += sge.length;
    }
    wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Inline);
    wqe.num_sge = 0;
    wqe.length = static_cast<uint32_t>(length);
    return 0;
}

int write_wqe(const Qp& qp, const ibv_send_wr& wr, abi::SqWqe& wqe) {
    if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.sq.max_sge) return EINVAL;
    if ((wr.send_flags & ~kKnownFlags) != 0 || !opcode_allowed(qp.ex.qp_base.qp_type, wr.opcode)) return EINVAL;
    wqe = {};
    wqe.wr_id = wr.wr_id;
    wqe.opcode = static_cast<uint8_t>(wr.opcode);
    wqe.flags = static_cast<uint8_t>(wr.send_flags | (qp.sq_sig_all ? IBV_SEND_SIGNALED : 0));
    wqe.imm_data = wr.imm_data;
    switch (wr.opcode) {
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            wqe.remote_addr = wr.wr.atomic.remote_addr;
            wqe.rkey = wr.wr.atomic.rkey;
            wqe.compare_add = wr.wr.atomic.compare_add;
            wqe.swap = wr.wr.atomic.swap;
            break;
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_WRITE_WITH_IMM:
        case IBV_WR_RDMA_READ:
        case IBV_WR_ATOMIC_WRITE:
            wqe.remote_addr = wr.wr.rdma.remote_addr;
            wqe.rkey = wr.wr.rdma.rkey;
            break;
        case IBV_WR_BIND_MW:
            // Windows of type 1 are bound by ibv_bind_mw(3).
            if (wr.bind_mw.mw->type != IBV_MW_TYPE_2) return EINVAL;
            put_bind(wqe, *wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
            break;
        case IBV_WR_LOCAL_INV:
        case IBV_WR_SEND_WITH_INV: wqe.imm_data = wr.invalidate_rkey; break;
        default: break;
    }
    if (qp.ex.qp_base.qp_type == IBV_QPT_XRC_SEND) wqe.remote_srqn = wr.qp_type.xrc.remote_srqn;
    if (qp.ex.qp_base.qp_type == IBV_QPT_UD) {
        if (wr.wr.ud.ah == nullptr) return EINVAL;
        set_destination(wqe, *wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    }
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        if (!reads_memory(wr.opcode)) return EINVAL;
        return write_inline(qp, wr, wqe);
    }
    wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Sges);
    wqe.num_sge = static_cast<uint8_t>(wr.num_sge);
    static_assert(sizeof(ibv_sge) == sizeof(abi::WqeSge) && offsetof(ibv_sge, lkey) == offsetof(abi::WqeSge, lkey));
    if (wr.num_sge > 0) std::memcpy(&wqe + 1, wr.sg_list, static_cast<size_t>(wr.num_sge) * sizeof(ibv_sge));
    return 0;
}

}  // namespace

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    Qp& qp = *Qp::of(base);
    // First: in a forked child a thread that does not exist may hold the lock.
    if (qp.session->state() == SessionState::Forgotten) {
        *bad_wr = wr;
        return EIO;
    }
    int rc = 0;
    Guard guard(qp.sq.lock);
    if (qp.sq.header == nullptr) rc = EINVAL;  // an XRC target has no queues
    // IBTA 10.8.3.1: the send queue takes work from RTS on (and in the error states, where it is flushed).
    if (base->state == IBV_QPS_RESET || base->state == IBV_QPS_INIT || base->state == IBV_QPS_RTR) rc = EINVAL;
    const uint32_t before = qp.sq.head.load(std::memory_order_relaxed);
    uint32_t head = before;
    for (; rc == 0 && wr != nullptr; wr = wr->next) {
        if (head - qp.sq.tail.load(std::memory_order_acquire) >= qp.sq.depth)
            rc = ENOMEM;
        else
            rc = write_wqe(qp, *wr, *reinterpret_cast<abi::SqWqe*>(qp.sq.slot(head)));
        if (rc != 0) break;
        ++head;
    }
    if (rc != 0) *bad_wr = wr;
    if (head != before) capture_and_publish(qp, head);
    return rc;
}

}  // namespace rocemu::provider
