// SPDX-License-Identifier: BSD-3-Clause
// Qp: a queue pair: its two work queues in shared memory. One of XRC has a send queue only, or (a handle of a target)
// none. Locks: each queue's spinlock guards its head (posting); the
// tail moves when completions are polled, under the lock of the CQ that the queue completes to.
// Read lib/abi/queues.h and session_page.h.
#pragma once

#include <atomic>

#include "provider/capture.h"
#include "provider/cq.h"
#include "provider/objects.h"
#include "provider/work_queue.h"

namespace rocemu::provider {

struct IndTable;

struct Qp {
    ibv_qp_ex ex;  // begins with the ibv_qp that applications hold
    std::byte foreign_pad[kForeignPad];
    Session* session;
    uint64_t cookie;  // in its events
    uint32_t shard;
    uint32_t slot;
    uint32_t max_inline;
    bool sq_sig_all;
    bool extended;  // created with send_ops_flags: ibv_wr_* may be used
    uint32_t async_delivered;  // under objects_lock
    WorkQueue sq, rq;
    CaptureState capture;  // of sq
    ibv_qp_cap cap;
    IndTable* spread;  // it has no queues: frames go to those of the table (receive_wq.cpp)
    // Building WRs between ibv_wr_start and ibv_wr_complete, under sq.lock.
    uint32_t wr_head;   // index behind the WQEs written so far
    int wr_error;

    [[nodiscard]] ibv_qp* base() { return &ex.qp_base; }
    static Qp* of(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
    static Qp* of(ibv_qp_ex* qp) { return reinterpret_cast<Qp*>(qp); }
    [[nodiscard]] Cq* send_cq() { return Cq::of(base()->send_cq); }  // nullptr: an XRC target
    // nullptr: XRC, where a program may name one all the same, which the QP does not use.
    [[nodiscard]] Cq* recv_cq() { return base()->qp_type == IBV_QPT_XRC_SEND ? nullptr : Cq::of(base()->recv_cq); }
    // No completion that waits is seen any more. The locks of both CQs are held.
    void strike_out() {
        if (send_cq() != nullptr) send_cq()->strike_out(base()->qp_num);
        if (recv_cq() != nullptr && recv_cq() != send_cq()) recv_cq()->strike_out(base()->qp_num);
    }

    // Makes everything below `head` visible to the daemon; the queue's lock is held.
    void publish(WorkQueue& queue, uint32_t head) {
        queue.head.store(head, std::memory_order_release);
        queue.header->producer.store(head, std::memory_order_release);
        if (session->alive()) session->ring(shard, slot);
    }
};

// The fields of a BIND_MW. Of `rkey` the low byte counts, the application's; the rest is the window's own.
inline void put_bind(abi::SqWqe& wqe, const ibv_mw& mw, uint32_t rkey, const ibv_mw_bind_info& info) {
    wqe.rkey = (mw.rkey & ~0xffu) | (rkey & 0xff);
    wqe.imm_data = info.mr != nullptr ? info.mr->lkey : 0;
    wqe.remote_addr = info.addr;
    wqe.compare_add = info.length;
    wqe.swap = info.mw_access_flags;
}

// nullptr with errno.
Qp* make_qp(ibv_pd* pd, const ibv_qp_init_attr& attr, uint32_t create_flags = 0);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
// Fills what applications see of a new QP, and enters it into the session's tables.
void introduce(Qp& qp, Session& session, ibv_context* context, const ibv_qp_init_attr& attr, uint32_t qpn);
// An XRC target (xrc.cpp).
ibv_qp* create_target(ibv_context* context, const ibv_qp_init_attr_ex& attr);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);

// The ibv_wr_* interface (wr_api.cpp).
bool wr_api_supports(ibv_qp_type type, uint64_t send_ops_flags);
void set_wr_api(ibv_qp_ex& qp);

// Attributes there and back (qp_attr.cpp).
abi::QpAttrRecord record_of(const ibv_qp_attr& attr, int mask);
void attr_of(const abi::QpAttrRecord& record, const ibv_qp_cap& cap, ibv_qp_attr& attr);

}  // namespace rocemu::provider
