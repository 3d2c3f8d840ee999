// SPDX-License-Identifier: BSD-3-Clause
// The extended posting interface (ibv_wr_*(3)): WQEs are written in place between ibv_wr_start and ibv_wr_complete; the
// first error of a batch is kept and told by ibv_wr_complete, which then posts nothing of the batch.
#include <cstring>

#include "provider/ah.h"
#include "provider/qp.h"

namespace rocemu::provider {
namespace {

constexpr uint64_t kSendOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kWriteOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
// Of connections whose responder answers.
constexpr uint64_t kReadOps =
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;

// IBTA table of operations by transport (11.4.1.1).
uint64_t ops_of(ibv_qp_type type) {
    switch (type) {
        case IBV_QPT_XRC_SEND:
        case IBV_QPT_RC: return kSendOps | kWriteOps | kReadOps;
        case IBV_QPT_UC: return kSendOps | kWriteOps;
        case IBV_QPT_RAW_PACKET: return IBV_QP_EX_WITH_SEND;
        default: return kSendOps;
    }
}

void fail(Qp& qp, int error) {
    if (qp.wr_error == 0) qp.wr_error = error;
}

// The WQE being built: the last one that begin() made.
abi::SqWqe& current(Qp& qp) { return *reinterpret_cast<abi::SqWqe*>(qp.sq.slot(qp.wr_head - 1)); }

// A new WQE, or nullptr: the batch has failed.
abi::SqWqe* begin(ibv_qp_ex* ex, ibv_wr_opcode opcode) {
    Qp& qp = *Qp::of(ex);
    if (qp.wr_error != 0) return nullptr;
    if (qp.wr_head - qp.sq.tail.load(std::memory_order_acquire) >= qp.sq.depth) {
        fail(qp, ENOMEM);
        return nullptr;
    }
    ++qp.wr_head;
    abi::SqWqe& wqe = current(qp);
    wqe = {};
    wqe.wr_id = ex->wr_id;
    wqe.opcode = static_cast<uint8_t>(opcode);
    wqe.flags = static_cast<uint8_t>((ex->wr_flags & ~IBV_SEND_INLINE) | (qp.sq_sig_all ? IBV_SEND_SIGNALED : 0));
    return &wqe;
}

void begin_rdma(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t rkey, uint64_t address, uint32_t imm) {
    abi::SqWqe* wqe = begin(ex, opcode);
    if (wqe == nullptr) return;
    wqe->rkey = rkey;
    wqe->remote_addr = address;
    wqe->imm_data = imm;
}

void wr_rdma_read(ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    begin_rdma(ex, IBV_WR_RDMA_READ, rkey, address, 0);
}
void wr_rdma_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, address, 0);
}
void wr_rdma_write_imm(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, __be32 imm) {
    begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
}
void wr_send(ibv_qp_ex* ex) { begin(ex, IBV_WR_SEND); }
void wr_send_imm(ibv_qp_ex* ex, __be32 imm) {
    if (abi::SqWqe* wqe = begin(ex, IBV_WR_SEND_WITH_IMM); wqe != nullptr) wqe->imm_data = imm;
}
void wr_send_inv(ibv_qp_ex* ex, uint32_t rkey) {
    if (abi::SqWqe* wqe = begin(ex, IBV_WR_SEND_WITH_INV); wqe != nullptr) wqe->imm_data = rkey;
}
void wr_local_inv(ibv_qp_ex* ex, uint32_t rkey) {
    if (abi::SqWqe* wqe = begin(ex, IBV_WR_LOCAL_INV); wqe != nullptr) wqe->imm_data = rkey;
}
void wr_bind_mw(ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
    abi::SqWqe* wqe = begin(ex, IBV_WR_BIND_MW);
    if (wqe == nullptr) return;
    if (mw->type != IBV_MW_TYPE_2) return fail(*Qp::of(ex), EINVAL);
    put_bind(*wqe, *mw, rkey, *info);
}
void begin_atomic(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t rkey, uint64_t address, uint64_t compare_add,
                  uint64_t swap) {
    abi::SqWqe* wqe = begin(ex, opcode);
    if (wqe == nullptr) return;
    wqe->rkey = rkey;
    wqe->remote_addr = address;
    wqe->compare_add = compare_add;
    wqe->swap = swap;
}
void wr_atomic_cmp_swp(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
    begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t add) {
    begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
}

void wr_set_ud_addr(ibv_qp_ex* ex, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
    Qp& qp = *Qp::of(ex);
    if (qp.wr_error == 0) set_destination(current(qp), *ah, remote_qpn, remote_qkey);
}

void wr_set_xrc_srqn(ibv_qp_ex* ex, uint32_t remote_srqn) {
    Qp& qp = *Qp::of(ex);
    if (qp.wr_error == 0) current(qp).remote_srqn = remote_srqn;
}

void set_sges(ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
    Qp& qp = *Qp::of(ex);
    if (qp.wr_error != 0) return;
    if (count > qp.sq.max_sge) return fail(qp, EINVAL);
    abi::SqWqe& wqe = current(qp);
    wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Sges);
    wqe.num_sge = static_cast<uint8_t>(count);
    if (count > 0) std::memcpy(&wqe + 1, list, count * sizeof *list);
}
void wr_set_sge(ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t length) {
    const ibv_sge sge{address, length, lkey};
    set_sges(ex, 1, &sge);
}
void wr_set_sge_list(ibv_qp_ex* ex, size_t count, const ibv_sge* list) { set_sges(ex, count, list); }

void wr_set_inline_data_list(ibv_qp_ex* ex, size_t count, const ibv_data_buf* list) {
    Qp& qp = *Qp::of(ex);
    if (qp.wr_error != 0) return;
    abi::SqWqe& wqe = current(qp);
    auto* out = reinterpret_cast<std::byte*>(&wqe + 1);
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) {
        if (list[i].length > qp.max_inline - length) return fail(qp, EINVAL);
        std::memcpy(out + length, list[i].addr, list[i].length);
        length += list[i].length;
    }
    wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Inline);
    wqe.flags |= IBV_SEND_INLINE;
    wqe.num_sge = 0;
    wqe.length = static_cast<uint32_t>(length);
}
void wr_set_inline_data(ibv_qp_ex* ex, void* address, size_t length) {
    const ibv_data_buf one{address, length};
    wr_set_inline_data_list(ex, 1, &one);
}

// The eight bytes are taken at once, as inline data (make_qp made room for them).
void wr_atomic_write(ibv_qp_ex* ex, uint32_t rkey, uint64_t address, const void* data) {
    begin_rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, address, 0);
    wr_set_inline_data(ex, const_cast<void*>(data), sizeof(uint64_t));
}

void wr_start(ibv_qp_ex* ex) {
    Qp& qp = *Qp::of(ex);
    if (qp.session->state() == SessionState::Forgotten) {  // as in post_send; letting go of the lock does no harm
        qp.wr_error = EIO;
        return;
    }
    qp.sq.lock.lock();
    qp.wr_head = qp.sq.head.load(std::memory_order_relaxed);
    const ibv_qp_state state = ex->qp_base.state;
    qp.wr_error = state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR ? EINVAL : 0;
}
int wr_complete(ibv_qp_ex* ex) {
    Qp& qp = *Qp::of(ex);
    const int error = qp.wr_error;
    if (error == 0 && qp.wr_head != qp.sq.head.load(std::memory_order_relaxed)) capture_and_publish(qp, qp.wr_head);
    qp.sq.lock.unlock();
    return error;
}
void wr_abort(ibv_qp_ex* ex) { Qp::of(ex)->sq.lock.unlock(); }

}  // namespace

bool wr_api_supports(ibv_qp_type type, uint64_t send_ops_flags) { return (send_ops_flags & ~ops_of(type)) == 0; }

void set_wr_api(ibv_qp_ex& qp) {
    qp.wr_rdma_read = wr_rdma_read;
    qp.wr_rdma_write = wr_rdma_write;
    qp.wr_rdma_write_imm = wr_rdma_write_imm;
    qp.wr_send = wr_send;
    qp.wr_send_imm = wr_send_imm;
    qp.wr_send_inv = wr_send_inv;
    qp.wr_local_inv = wr_local_inv;
    qp.wr_bind_mw = wr_bind_mw;
    qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
    qp.wr_atomic_write = wr_atomic_write;
    qp.wr_set_ud_addr = wr_set_ud_addr;
    qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
    qp.wr_set_sge = wr_set_sge;
    qp.wr_set_sge_list = wr_set_sge_list;
    qp.wr_set_inline_data = wr_set_inline_data;
    qp.wr_set_inline_data_list = wr_set_inline_data_list;
    qp.wr_start = wr_start;
    qp.wr_complete = wr_complete;
    qp.wr_abort = wr_abort;
}

}  // namespace rocemu::provider
