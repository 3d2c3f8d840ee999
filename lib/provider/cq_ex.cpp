// SPDX-License-Identifier: BSD-3-Clause
// The extended CQ (ibv_create_cq_ex(3)): completions are looked at one by one, the CQ is locked from ibv_start_poll to
// ibv_end_poll.
#include <time.h>

#include "base/verbs_types.h"
#include "provider/cq.h"
#include "provider/waiting.h"

namespace rocemu::provider {
namespace {

constexpr uint64_t kSupportedFields =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

bool next(Cq& cq) {
    if (cq.take(1, &cq.current, &cq.current_timestamp) == 0) return false;
    cq.ex.wr_id = cq.current.wr_id;
    cq.ex.status = cq.current.status;
    return true;
}

int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
    if (attr->comp_mask != 0) return EINVAL;
    Cq& cq = *Cq::of(ex);
    if (cq.session->state() == SessionState::Forgotten) return EIO;
    for (int round = 0; round < 2; ++round) {
        cq.lock.lock();
        if (next(cq)) {
            found_work();
            return 0;
        }
        cq.lock.unlock();
        if (round == 0 && !wait_after_empty_poll(cq)) break;
    }
    return ENOENT;
}
int next_poll(ibv_cq_ex* ex) { return next(*Cq::of(ex)) ? 0 : ENOENT; }
void end_poll(ibv_cq_ex* ex) { Cq::of(ex)->lock.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* ex) { return Cq::of(ex)->current.opcode; }
uint32_t read_vendor_err(ibv_cq_ex* ex) { return Cq::of(ex)->current.vendor_err; }
uint32_t read_byte_len(ibv_cq_ex* ex) { return Cq::of(ex)->current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* ex) { return Cq::of(ex)->current.imm_data; }
uint32_t read_qp_num(ibv_cq_ex* ex) { return Cq::of(ex)->current.qp_num; }
uint32_t read_src_qp(ibv_cq_ex* ex) { return Cq::of(ex)->current.src_qp; }
unsigned read_wc_flags(ibv_cq_ex* ex) { return Cq::of(ex)->current.wc_flags; }
uint32_t read_slid(ibv_cq_ex* ex) { return Cq::of(ex)->current.slid; }
uint8_t read_sl(ibv_cq_ex* ex) { return Cq::of(ex)->current.sl; }
uint8_t read_dlid_path_bits(ibv_cq_ex* ex) { return Cq::of(ex)->current.dlid_path_bits; }
uint64_t now_of(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}
// The CQE's time in the clock of the calendar, by the present distance of the two clocks.
uint64_t read_completion_wallclock_ns(ibv_cq_ex* ex) {
    return Cq::of(ex)->current_timestamp + now_of(CLOCK_REALTIME) - now_of(CLOCK_MONOTONIC);
}
uint64_t read_completion_ts(ibv_cq_ex* ex) { return Cq::of(ex)->current_timestamp; }

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
    constexpr uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    constexpr uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((attr->comp_mask & ~kKnownMask) != 0 ||
        (attr->wc_flags & ~kSupportedFields) != 0 ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & ~kKnownFlags) != 0))
        return fail_pointer<ibv_cq_ex>(EOPNOTSUPP);
    // ibv_create_cq_ex(3): a parent domain, of which nothing is needed (domains.cpp).
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
        (attr->parent_domain == nullptr || attr->parent_domain->context != context ||
         Pd::of(attr->parent_domain)->parent == nullptr))
        return fail_pointer<ibv_cq_ex>(EINVAL);
    Cq* cq = make_cq(*Context::of(context), attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (cq == nullptr) return nullptr;
    ibv_cq_ex& ex = cq->ex;
    ex.start_poll = start_poll;
    ex.next_poll = next_poll;
    ex.end_poll = end_poll;
    ex.read_opcode = read_opcode;
    ex.read_vendor_err = read_vendor_err;
    ex.read_byte_len = read_byte_len;
    ex.read_imm_data = read_imm_data;
    ex.read_qp_num = read_qp_num;
    ex.read_src_qp = read_src_qp;
    ex.read_wc_flags = read_wc_flags;
    ex.read_slid = read_slid;
    ex.read_sl = read_sl;
    ex.read_dlid_path_bits = read_dlid_path_bits;
    ex.read_completion_ts = read_completion_ts;
    ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
    return &ex;
}

}  // namespace rocemu::provider
