// SPDX-License-Identifier: BSD-3-Clause
// What the responder sends: answers to READs and atomics in the order of their requests, then a NAK, if one is due, then
// an ACK. Each answer acknowledges everything before it, so ACKs are needed only at the end. See responder.h.
// Read IBTA volume 1, 9.7.5.1.2 (coalescing), 9.7.5.1.8 (order of responses), 9.3.5 (AETH).
#include "transport/request_opcode.h"
#include "transport/responder.h"

namespace rocemu::transport {

TxPacket& Responder::add_response(TxBatch& batch, wire::Opcode rc_opcode, uint64_t psn, uint32_t payload) {
    return add_packet(batch, ctx_.qp, acked_opcode(ctx_.config.type, rc_opcode), psn_of(psn), payload);
}

bool Responder::poll_transmit(TxBudget& budget, TxBatch& batch) {
    if (!ctx_.can_respond()) return false;
    while (Resource* r = resources_.oldest_pending()) {
        // IBTA 9.7.5.1.8 and our rule of placements: nothing overtakes what came before it.
        if (ctx_.dma.placed(DmaOwner::Responder) < r->mark) return false;
        if (!send_answer(*r, budget, batch)) return true;
    }
    if (nak_.set) {
        if (ctx_.dma.placed(DmaOwner::Responder) < nak_.mark) return false;
        // With the connection nothing is looked at that comes back of what stands in front of the NAK: a response whose
        // memory cannot be read ends it by a NAK of its own, which is the older one.
        if (batch.full() || (nak_.fatal && batch.segments.used != 0)) return true;
        send_nak(batch);
        if (!ctx_.can_respond()) return false;
        // A NAK of an older PSN (a repeated READ) says nothing about what came behind it: the ACK leaves too.
    }
    AckPoint point;
    while (!batch.full() && acks_.next(point)) {
        TxPacket& p = add_response(batch, wire::Opcode::RcAcknowledge, point.psn);
        p.syndrome = ack_syndrome(point.msn);
        p.msn = point.msn;
        ctx_.count(Counter::acks_sent);
    }
    return batch.full();
}

// IBTA 9.7.7.2: how many messages behind message `msn` may come, each taking a receive. Those accepted since have theirs,
// and so has the one that is coming in. A QP on an SRQ promises nothing: other QPs take from it too.
uint8_t Responder::ack_syndrome(uint32_t msn) const {
    if (ctx_.config.has_srq) return wire::Aeth::ack(0).syndrome;
    const uint32_t since = (msn_ - msn) & Psn::kMask;
    const uint32_t receives = rq_.free() + rq_.waiting + since + (message_.kind == InboundMessage::Kind::Send ? 1 : 0);
    return wire::Aeth::ack(0, wire::code_of_credits(receives)).syndrome;
}

// False: no room now. A READ is answered in as many turns as it takes.
bool Responder::send_answer(Resource& r, TxBudget& budget, TxBatch& batch) {
    while (r.pending()) {
        const bool atomic = r.kind == ResourceKind::Atomic;
        const uint32_t payload = atomic ? 0 : payload_at(r.length, ctx_.mtu, r.next - r.first);
        if (batch.full() || batch.segments.room() == 0 || budget.exhausted(payload)) return false;
        if (atomic) {
            TxPacket& p = add_response(batch, wire::Opcode::RcAtomicAcknowledge, r.next);
            p.syndrome = ack_syndrome(r.msn);
            p.msn = r.msn;
            p.compare_add = r.original;
        } else if (!send_read_packet(r, payload, batch)) {
            return true;
        }
        budget.spend(payload);
        if (++r.next == r.end) {
            acks_.implied(r.end - 1);
            resources_.answered(r);
        }
    }
    return true;
}

bool Responder::send_read_packet(Resource& r, uint32_t payload, TxBatch& batch) {
    // The key is looked at for each packet: memory deregistered under way must not be read, and the peer is told.
    memory::Segment s{};
    const uint64_t addr = r.addr + (r.next - r.first) * ctx_.mtu;
    if (payload != 0 && ctx_.env.keys.resolve_remote(r.rkey, r.pd, ctx_.config.qpn, addr, payload,
                                                     access_flags::kRemoteRead, s) != memory::KeyStatus::Ok) {
        answer_failed(r, r.next, wire::NakCode::RemoteAccessError);
        return false;
    }
    const bool first = r.next == r.start;
    const bool last = r.next + 1 == r.end;
    using enum wire::Opcode;
    const wire::Opcode op =
        first ? (last ? RcReadResponseOnly : RcReadResponseFirst) : (last ? RcReadResponseLast : RcReadResponseMiddle);
    TxPacket& p = add_response(batch, op, r.next, payload);
    if (first || last) p.syndrome = ack_syndrome(r.msn);
    p.msn = r.msn;
    if (payload != 0) {
        batch.segments.items[batch.segments.used++] = s;
        p.seg_count = 1;
        p.gather_tag = kResponseTag | ctx_.gather_tag(r.next);
    }
    return true;
}

void Responder::gather_failed(uint64_t psn) {
    if (Resource* r = resources_.find(psn)) answer_failed(*r, psn, wire::NakCode::RemoteOperationalError);
}

void Responder::answer_failed(Resource& r, uint64_t psn, wire::NakCode code) {
    if (!r.replayed) {
        refuse(psn, code, Blame{false, 0, {}, AsyncEvent::QpAccessErr}, 0);
        return;
    }
    // A repetition: if the peer still waits for it, the NAK ends it there; if it does not (a request duplicated on the
    // way, memory rightly deregistered since), the NAK lies behind its window and the connection lives on.
    if (r.pending()) resources_.answered(r);
    if (!nak_.set) nak_ = {true, false, false, {}, wire::Aeth::nak(0, code).syndrome, msn_, psn, 0};
}

void Responder::send_nak(TxBatch& batch) {
    TxPacket& p = add_response(batch, wire::Opcode::RcAcknowledge, nak_.psn);
    p.syndrome = nak_.syndrome;
    p.msn = nak_.msn;
    // A NAK acknowledges what lies before it.
    acks_.implied(nak_.psn - 1);
    if (wire::Aeth{nak_.syndrome, 0}.kind() == wire::AethKind::Nak) ctx_.count(Counter::naks_sent);
    nak_.set = false;
    if (!nak_.fatal) return;
    if (nak_.raises) ctx_.raise(nak_.event);
    ctx_.enter_error();
}

}  // namespace rocemu::transport
