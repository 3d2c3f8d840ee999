// SPDX-License-Identifier: BSD-3-Clause
// The end of the chain: execute, reply, complete, and the results of what was executed. See responder.h.
// Read IBTA volume 1, 9.7.4.1.7 (execution order), 9.7.7.1 (MSN), 9.7.5.1.2 (what an ACK promises).
#include "transport/placement_op.h"
#include "transport/responder.h"

namespace rocemu::transport {

using wire::Operation;

void Responder::execute(const Request& r) {
    switch (r.op.operation) {
        case Operation::Send:
            execute_place(r, true);
            break;
        case Operation::Write:
            message_.take_addresses(r.packet);
            if (r.op.starts_message()) ctx_.count(Counter::rx_write_requests);
            execute_place(r, false);
            break;
        case Operation::ReadRequest:
            execute_read(r);
            break;
        case Operation::AtomicWrite:
            execute_atomic_write(r);
            break;
        default:
            execute_atomic(r);
            break;
    }
}

void Responder::execute_place(const Request& r, bool takes_receive) {
    push_placement(ctx_, r.psn, r.packet.payload, {r.segments.data(), r.segment_count}, r.receive,
                   takes_receive ? &rq_.ring.at(r.receive) : nullptr, message_.received, r.op.ends_message());
}

Resource& Responder::add_resource(const Request& r, ResourceKind kind, uint32_t packets) {
    Resource& res = resources_.add(ctx_.attr.max_dest_rd_atomic);
    res.kind = kind;
    res.first = res.start = res.next = r.psn;
    res.end = r.psn + packets;
    return res;
}

// The data is read when the response is built: here the request is only noted.
void Responder::execute_read(const Request& r) {
    const wire::Reth reth = r.packet.reth();
    Resource& res = add_resource(r, ResourceKind::Read, packets_of(reth.length, ctx_.mtu));
    res.addr = reth.va;
    res.rkey = reth.rkey;
    res.pd = ctx_.remote_pd;
    res.length = reth.length;
    res.mark = ctx_.dma.mark();
    ctx_.count(Counter::rx_read_requests);
}

void Responder::execute_atomic(const Request& r) {
    const wire::AtomicEth eth = r.packet.atomic_eth();
    const bool swaps = r.op.operation == Operation::CompareSwap;
    Resource& res = add_resource(r, ResourceKind::Atomic, 1);
    res.operands = swaps ? AtomicOperands{eth.compare, eth.swap_or_add} : AtomicOperands{eth.swap_or_add, 0};
    DmaOp& op = ctx_.dma.push({r.segments.data(), 1});
    op.source = &res.operands;
    op.packet = r.psn;
    op.ref = resources_.newest_number();
    op.length = sizeof(uint64_t);
    op.kind = swaps ? DmaKind::CompareSwap : DmaKind::FetchAdd;
    op.owner = DmaOwner::Responder;
    res.mark = ctx_.dma.mark();
    ctx_.count(Counter::rx_atomic_requests);
}

// A19: one store; the answer, a READ response of no bytes, says that it has been done.
void Responder::execute_atomic_write(const Request& r) {
    Resource& res = add_resource(r, ResourceKind::AtomicWrite, 1);
    DmaOp& op = ctx_.dma.push({r.segments.data(), 1});
    op.source = r.packet.payload.data();
    op.packet = r.psn;
    op.ref = resources_.newest_number();
    op.length = sizeof(uint64_t);
    op.kind = DmaKind::Store;
    op.owner = DmaOwner::Responder;
    res.mark = ctx_.dma.mark();
    ctx_.count(Counter::rx_write_requests);
}

// PSN and MSN move on. IBTA 9.7.7.1: the MSN counts a SEND or WRITE with its last packet, a READ or atomic when it is
// accepted, a repeated request never.
void Responder::reply(const Request& r) {
    expected_ = r.psn + 1;
    message_.advance(r.packet);
    if (r.op.ends_message()) msn_ = (msn_ + 1) & Psn::kMask;
    if (r.op.takes_resource()) {
        Resource& res = *resources_.at(resources_.newest_number());
        res.msn = msn_;
        expected_ = res.end;
    }
    // May be acknowledged at once if nothing is being placed, else with the newest placement.
    if (DmaOp* newest = ctx_.dma.newest()) {
        newest->ack_packet = expected_ - 1;
        newest->ack_msn = msn_;
    } else {
        acks_.advance({expected_ - 1, msn_});
    }
}

void Responder::complete(const Request& r) {
    if (!r.op.ends_message() || !r.receive_taken) return;
    ReceiveEntry& e = rq_.ring.at(r.receive);
    const bool send = r.op.operation == Operation::Send;
    e.filled = true;
    e.solicited = r.packet.bth.solicited;
    e.opcode = send ? WcOpcode::Recv : WcOpcode::RecvRdmaWithImm;
    e.byte_len = message_.length(send);
    e.wc_flags = r.wc_flags;
    e.imm_data = r.wc_data;
    e.src_qp = ctx_.attr.dest_qpn;
    e.dma_mark = ctx_.dma.mark();
    if (send) ctx_.count(Counter::rx_send_messages);
}

void Responder::executed(const DmaOp& op, DmaStatus status, uint64_t original) {
    if (status == DmaStatus::Ok) {
        if (!is_atomic(op.kind)) return;
        if (Resource* res = resources_.at(op.ref)) res->original = original;
        return;
    }
    if (placement_failed_ || !ctx_.can_respond()) return;
    placement_failed_ = true;
    // IBTA 9.7.5.2.6: the responder's own trouble is a remote operational error at the PSN of the packet. Nothing after
    // it has been acknowledged: placed() stands still.
    Blame blame{op.takes_receive, op.ref, WcStatus::LocProtErr, AsyncEvent::QpFatal};
    refuse(op.packet, wire::NakCode::RemoteOperationalError, blame, 0);
}

void Responder::placed(uint64_t psn, uint32_t msn) {
    acks_.advance({psn, msn});
}

}  // namespace rocemu::transport
