// SPDX-License-Identifier: BSD-3-Clause
// See completions.h. In ERR nothing is flushed before all payload accesses have ended: a buffer that was given back
// must not be written any more.
#include "transport/completions.h"

#include <optional>

#include "transport/request_opcode.h"

namespace rocemu::transport {

namespace {

std::optional<WcStatus> send_status(const QpContext& ctx, const SendQueue& q, uint64_t seq) {
    const bool behind_failure = q.failed && seq >= q.failed_seq;
    if (seq < q.una_seq && !behind_failure && ctx.dma.placed(DmaOwner::Completer) >= q.ring.at(seq).dma_mark) return WcStatus::Success;
    // SQE: the send queue alone has failed, nothing of it is under way.
    if (ctx.state() != QpState::Sqe && (ctx.state() != QpState::Err || !ctx.dma.empty())) return std::nullopt;
    return q.failed && seq == q.failed_seq ? q.failed_status : WcStatus::WrFlushErr;
}

std::optional<WcStatus> receive_status(const QpContext& ctx, const ReceiveQueue& q, uint64_t seq) {
    const bool behind_failure = q.failed && seq >= q.failed_seq;
    const ReceiveEntry& e = q.ring.at(seq);
    if (e.filled && !behind_failure && ctx.dma.placed(DmaOwner::Responder) >= e.dma_mark) return WcStatus::Success;
    if (ctx.state() != QpState::Err || !ctx.dma.empty()) return std::nullopt;
    return q.failed && seq == q.failed_seq ? q.failed_status : WcStatus::WrFlushErr;
}

void count_error(const QpContext& ctx, WcStatus status, Counter flushed, Counter failed) {
    if (status == WcStatus::WrFlushErr)
        ctx.count(flushed);
    else if (status != WcStatus::Success)
        ctx.count(failed);
}

}  // namespace

bool emit_send_completions(const QpContext& ctx, SendQueue& q, CompletionBatch& batch) {
    while (!q.ring.empty()) {
        const uint64_t seq = q.ring.head();
        const std::optional<WcStatus> status = send_status(ctx, q, seq);
        if (!status) return false;
        if (batch.full()) return true;
        // IBTA 10.8.6: nothing succeeds, or fails for another reason, behind what was flushed. Data of a READ or atomic
        // may be missing for ever while the WRITE behind it was acknowledged or refused.
        if (*status != WcStatus::Success && (!q.failed || seq < q.failed_seq)) {
            q.failed = true;
            q.failed_seq = seq;
            q.failed_status = *status;
        }
        const SendWqe& wqe = q.ring.front().wqe;
        Completion& c = batch.items[batch.count++];
        c = Completion{};
        c.wr_id = wqe.wr_id;
        c.index = wqe.index;
        c.status = *status;
        c.opcode = completion_opcode(wqe.opcode);
        c.byte_len = wqe.length;
        c.src_qp = ctx.attr.dest_qpn;
        // IBTA 10.7.3.1: errors are reported whether asked for or not.
        c.visible = *status != WcStatus::Success || ctx.config.sq_sig_all || (wqe.flags & send_flags::kSignaled);
        c.solicited = *status != WcStatus::Success;
        count_error(ctx, *status, Counter::req_cqe_flush_error, Counter::req_cqe_error);
        q.pop();
    }
    return false;
}

bool emit_receive_completions(const QpContext& ctx, ReceiveQueue& q, CompletionBatch& batch) {
    while (!q.ring.empty()) {
        const uint64_t seq = q.ring.head();
        const std::optional<WcStatus> status = receive_status(ctx, q, seq);
        if (!status) return false;
        if (batch.full()) return true;
        const ReceiveEntry& e = q.ring.front();
        Completion& c = batch.items[batch.count++];
        c = Completion{};
        c.is_recv = true;
        c.visible = true;
        c.wr_id = e.wqe.wr_id;
        c.index = e.wqe.index;
        c.srq = e.wqe.srq;
        c.status = *status;
        c.opcode = e.opcode;
        c.solicited = e.solicited;
        if (*status == WcStatus::Success) {
            c.byte_len = e.byte_len;
            c.wc_flags = e.wc_flags;
            c.imm_data = e.imm_data;
            c.src_qp = e.src_qp;
            c.sl = e.sl;
        } else {
            c.solicited = true;
        }
        count_error(ctx, *status, Counter::resp_cqe_flush_error, Counter::resp_cqe_error);
        q.pop();
    }
    return false;
}

}  // namespace rocemu::transport
