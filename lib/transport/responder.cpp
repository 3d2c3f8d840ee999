// SPDX-License-Identifier: BSD-3-Clause
// The chain of checks, in the order of IBTA volume 1, 9.7.4.1. See responder.h.
#include "transport/responder.h"

#include "transport/sge_cursor.h"

namespace rocemu::transport {

using wire::NakCode;
using wire::Operation;

void Responder::reset() {
    resources_.clear();
    nak_ = {};
    halted_ = placement_failed_ = false;
    message_ = {};
    gap_ = Gap::None;
    nak_due_ = kNever;
    kept_.clear();
    msn_ = 0;
    expected_ = 0;
}

void Responder::start() {
    reset();
    expected_ = extend_start(ctx_.attr.rq_psn);
    acks_.reset(expected_);
}

bool Responder::handle(const wire::PacketView& packet, Instant now, bool may_keep) {
    if (halted_) {
        ctx_.count(Counter::rx_dropped_in_state);
        return false;
    }
    Request r(packet, now, may_keep);
    if (!check_psn(r) || !check_opcode_sequence(r) || !check_srq(r) || !check_opcode(r) || !check_resources(r) ||
        !check_length(r) || !check_key(r))
        return r.kept;
    execute(r);
    reply(r);
    complete(r);
    // Behind this one may be another gap: it gets its own time.
    nak_due_ = kept_.any() ? now + ctx_.config.reorder_time : kNever;
    if (kept_.any()) gap_trigger_ = gap_newest_ = kept_.lowest();
    return false;
}

void Responder::handle_timeout(Instant now) {
    if (now < nak_due_ || !ctx_.can_respond() || halted_) return;
    sequence_nak();
}

// IBTA 9.7.4.1.1, figure of the PSN regions: expected, duplicate (the 2^23 before it), else invalid.
bool Responder::check_psn(Request& r) {
    const int32_t distance = Psn(r.packet.bth.psn).distance_from(psn_of(expected_));
    r.psn = expected_ + static_cast<uint64_t>(static_cast<int64_t>(distance));
    if (distance < 0) {
        duplicate(r);
        return false;
    }
    if (distance > 0) {
        out_of_sequence(r);
        return false;
    }
    gap_ = Gap::None;
    if (nak_.set && !nak_.fatal && nak_.psn == expected_) nak_.set = false;  // not sent yet, and pointless now
    if (r.packet.bth.ack_req) acks_.ask(r.psn);
    return true;
}

// IBTA 9.7.5.1.3: one NAK for a gap; what follows is dropped silently until the expected packet comes. When the
// peer has visibly gone back (numbers start over) and the expected packet is still missing, its repetition was lost:
// a second NAK saves the peer its timer.
void Responder::out_of_sequence(Request& r) {
    ctx_.count(Counter::out_of_sequence);
    const uint64_t slack = std::max(16u, ctx_.config.reorder_packets);
    const uint64_t psn = r.psn;
    if (gap_ != Gap::Rnr) r.kept = r.may_keep && kept_.keep(expected_, psn, ctx_.config.reorder_packets);
    if (gap_ != Gap::None) {
        if (gap_trigger_ == 0)
            gap_trigger_ = gap_newest_ = psn;  // first one behind an RNR NAK
        else if (psn <= gap_trigger_ || psn + slack < gap_newest_)
            gap_ = Gap::None;
        gap_newest_ = std::max(gap_newest_, psn);
        if (gap_ != Gap::None) return;
    }
    // Not asked for yet. What was overtaken may still come, as long as all that overtook it can be kept.
    const bool waits = nak_due_ != kNever;
    gap_trigger_ = waits ? std::min(gap_trigger_, psn) : psn;
    gap_newest_ = waits ? std::max(gap_newest_, psn) : psn;
    if (!r.kept && !kept_.contains(psn)) return sequence_nak();
    if (!waits) nak_due_ = r.now + ctx_.config.reorder_time;
}

void Responder::sequence_nak() {
    gap_ = Gap::Sequence;
    nak_due_ = kNever;
    ask_again(wire::Aeth::nak(0, NakCode::PsnSequenceError).syndrome);
}

void Responder::ask_again(uint8_t syndrome) {
    nak_ = {true, false, false, {}, syndrome, msn_, expected_, ctx_.dma.mark()};
}

// IBTA 9.7.4.1.2: FIRST and ONLY begin a message, MIDDLE and LAST continue one of the same kind.
bool Responder::check_opcode_sequence(const Request& r) {
    return message_.continues(r.op) || refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
}

// IBTA A14: each request names a shared receive queue of the target's domain, also one that takes no receive: its PD is
// the one of the keys. All packets of a message name the same.
bool Responder::check_srq(const Request& r) {
    if (ctx_.config.type != QpType::XrcRecv) return true;
    const uint32_t srqn = r.packet.xrceth().srqn;
    if (!r.op.starts_message() && srqn != message_.srqn)
        return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    if (ctx_.remote_pd == 0) return refuse(r, NakCode::InvalidRdRequest, WcStatus::RemInvRdReqErr);
    message_.srqn = srqn;
    return true;
}

// IBTA 9.7.4.1.3: known to this QP, and allowed by its access flags.
bool Responder::check_opcode(const Request& r) {
    uint32_t need = 0;
    switch (r.op.operation) {
        case Operation::Send:
            return true;
        case Operation::Write:
        case Operation::AtomicWrite:
            need = access_flags::kRemoteWrite;
            break;
        case Operation::ReadRequest:
            need = access_flags::kRemoteRead;
            break;
        case Operation::CompareSwap:
        case Operation::FetchAdd:
            need = access_flags::kRemoteAtomic;
            break;
        default:
            return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    }
    if (ctx_.attr.access_flags & need) return true;
    return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
}

// IBTA 9.7.4.1.4: a receive WQE, a place among the responder resources, and (ours) a place in the DMA queue.
bool Responder::check_resources(Request& r) {
    if (!ctx_.dma.has_room(ctx_.responses_expected)) {
        // Lost like any packet: the next one is NAKed, the peer comes back when placements have made room.
        ctx_.count(Counter::responder_backlog_drops);
        return false;
    }
    if (r.op.takes_resource()) {
        if (resources_.has_room(ctx_.attr.max_dest_rd_atomic)) return true;
        return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    }
    if (r.op.operation == Operation::Send && !r.op.starts_message()) {
        r.receive = message_.receive;
        r.receive_taken = true;
        return true;
    }
    if (r.op.operation == Operation::Send || r.op.has_immediate()) return take_receive(r);
    return true;
}

bool Responder::take_receive(Request& r) {
    if (!rq_.has_free() && rq_.waiting != 0) {  // as above: those before it wait for the program's memory
        ctx_.count(Counter::responder_backlog_drops);
        return false;
    }
    if (!rq_.has_free()) {
        ctx_.count(Counter::out_of_buffer);
        gap_ = Gap::Rnr;
        nak_due_ = kNever;
        gap_trigger_ = gap_newest_ = 0;
        ask_again(wire::Aeth::rnr_nak(0, ctx_.attr.min_rnr_timer).syndrome);
        return false;
    }
    r.receive = rq_.take();
    r.receive_taken = true;
    if (r.op.operation == Operation::Send) message_.begin_send(r.receive);
    const WcStatus preset = rq_.ring.at(r.receive).wqe.preset_error;
    if (preset == WcStatus::Success) return true;
    return refuse(r, NakCode::RemoteOperationalError, preset);
}

// IBTA 9.7.4.1.6, C9-92 to C9-94.
bool Responder::check_length(const Request& r) {
    if (r.op.operation == Operation::ReadRequest)
        return r.packet.reth().length <= kMaxMessageBytes ||
               refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    // A19: eight bytes, no more and no less.
    if (r.op.operation == Operation::AtomicWrite)
        return (r.payload() == sizeof(uint64_t) && r.packet.reth().length == sizeof(uint64_t)) ||
               refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    const bool send = r.op.operation == Operation::Send;
    if (!send && r.op.operation != Operation::Write) return true;
    switch (message_.check_length(r.packet, ctx_.mtu, send ? rq_.ring.at(r.receive).wqe.length : 0)) {
        case InboundMessage::Fault::None:
            return true;
        case InboundMessage::Fault::Shape:
            return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
        case InboundMessage::Fault::TooLong:
            return refuse(r, NakCode::InvalidRequest, WcStatus::LocLenErr);
    }
    return false;
}

// IBTA 9.7.4.1.5 and 10.6.3: keys last, when the shape of the request is known to be right.
bool Responder::check_key(Request& r) {
    switch (r.op.operation) {
        case Operation::Send:
            return check_send_key(r);
        case Operation::Write:
            return check_write_key(r);
        case Operation::ReadRequest:
            return check_read_key(r);
        case Operation::AtomicWrite:
            return check_atomic_key(r, r.packet.reth().va, r.packet.reth().rkey, access_flags::kRemoteWrite);
        default:
            return check_atomic_key(r, r.packet.atomic_eth().va, r.packet.atomic_eth().rkey, access_flags::kRemoteAtomic);
    }
}

bool Responder::check_send_key(Request& r) {
    if (resolve_range(ctx_.env.keys, ctx_.recv_pd, rq_.sges_of(r.receive), message_.received, r.payload(),
                      access_flags::kLocalWrite, r.segments, r.segment_count) != SgeStatus::Ok)
        return refuse(r, NakCode::RemoteOperationalError, WcStatus::LocProtErr);
    if (!r.op.has_invalidate()) return true;
    // IBTA 9.4.1.1.3 and 10.6.6: what this QP may invalidate is a window bound to it, never a plain region. Done with
    // the check, the last one: nothing refuses the packet any more, and its receive completes later.
    r.wc_flags = wc_flags::kWithInv;
    r.wc_data = r.packet.ieth().rkey;
    if (ctx_.env.keys.invalidate(r.wc_data, ctx_.remote_pd, ctx_.config.qpn)) return true;
    return refuse(r, NakCode::RemoteAccessError, WcStatus::RemInvReqErr, AsyncEvent::QpAccessErr);
}

bool Responder::check_write_key(Request& r) {
    uint64_t addr = message_.write_addr;
    uint32_t rkey = message_.write_rkey;
    uint32_t whole = r.payload();
    if (r.op.starts_message()) {
        const wire::Reth reth = r.packet.reth();
        addr = reth.va;
        rkey = reth.rkey;
        whole = reth.length;
    }
    // IBTA C9-88: a message of length 0 needs no valid key.
    if (whole == 0) return true;
    // The first packet is checked for the whole message; each later one again: the region may have gone.
    memory::Segment& s = r.segments[0];
    if (ctx_.resolve_remote(rkey, addr, whole, access_flags::kRemoteWrite, s) != memory::KeyStatus::Ok)
        return refuse(r, NakCode::RemoteAccessError, WcStatus::RemAccessErr, AsyncEvent::QpAccessErr);
    s.length = r.payload();
    r.segment_count = 1;
    return true;
}

bool Responder::check_read_key(const Request& r) {
    const wire::Reth reth = r.packet.reth();
    if (reth.length == 0) return true;  // IBTA C9-88
    memory::Segment s;
    if (ctx_.resolve_remote(reth.rkey, reth.va, reth.length, access_flags::kRemoteRead, s) == memory::KeyStatus::Ok)
        return true;
    return refuse(r, NakCode::RemoteAccessError, WcStatus::RemAccessErr, AsyncEvent::QpAccessErr);
}

bool Responder::check_atomic_key(Request& r, uint64_t va, uint32_t rkey, uint32_t right) {
    // IBTA C9-87 (9.4.5), A19: atomics work on aligned eight bytes.
    if (va % sizeof(uint64_t) != 0) return refuse(r, NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    r.segment_count = 1;
    if (ctx_.resolve_remote(rkey, va, sizeof(uint64_t), right, r.segments[0]) == memory::KeyStatus::Ok)
        return true;
    return refuse(r, NakCode::RemoteAccessError, WcStatus::RemAccessErr, AsyncEvent::QpAccessErr);
}

// Which receive, if any, tells the application of an error: the one a SEND fills, or the one a WRITE's immediate took.
Responder::Blame Responder::blame_for(const Request& r, WcStatus status, AsyncEvent event) const {
    if (r.receive_taken) return {true, r.receive, status, event};
    if (message_.kind == InboundMessage::Kind::Send) return {true, message_.receive, status, event};
    return {false, 0, status, event};
}

bool Responder::refuse(const Request& r, NakCode code, WcStatus status, AsyncEvent event) {
    return refuse(r.psn, code, blame_for(r, status, event), ctx_.dma.mark());
}

// IBTA 9.9.3: the request is NAKed at its PSN, the QP goes to ERR (when the NAK leaves).
bool Responder::refuse(uint64_t psn, NakCode code, const Blame& blame, uint64_t mark) {
    if (halted_ && nak_.fatal && nak_.psn <= psn) return false;
    halted_ = true;
    nak_ = {true, true, !blame.has_receive, blame.event, wire::Aeth::nak(0, code).syndrome, msn_, psn, mark};
    rq_.failed = false;
    if (blame.has_receive) rq_.fail(blame.receive, blame.status);
    resources_.cancel_from(psn);
    if (code == NakCode::RemoteAccessError) ctx_.count(Counter::resp_remote_access_errors);
    return false;
}

}  // namespace rocemu::transport
