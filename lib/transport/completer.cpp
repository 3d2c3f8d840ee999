// SPDX-License-Identifier: BSD-3-Clause
// See completer.h. Every response first acknowledges what lies before it (reach), then acts at its own PSN.
#include "transport/completer.h"

#include <array>

#include "transport/placement_op.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

void Completer::reset() {
    kept_.clear();
    nak_due_ = kNever;
    gap_psn_ = 0;
}

bool Completer::handle(const wire::PacketView& packet, Instant now, bool may_keep) {
    const uint64_t ahead = (packet.bth.psn - q_.una) & Psn::kMask;
    const bool ack = packet.op->operation == wire::Operation::Acknowledge;
    if (ahead >= q_.high - q_.una) {
        // IBTA 9.7.6.1.1: a ghost. Behind una it repeats what is known, ahead of high it answers nothing we sent.
        if (ahead < (1u << 23))
            ctx_.count(Counter::unexpected_response);
        else if (!ack)
            ctx_.count(Counter::duplicate_response);
        else if (ahead == Psn::kMask && packet.aeth().kind() == wire::AethKind::Ack)
            // IBTA 9.7.7.2: not asked for: the newest ACK once more, as receives have been posted since.
            q_.credits.on_ack(packet.aeth());
        return false;
    }
    const uint64_t psn = q_.una + ahead;
    if (ack) {
        on_acknowledge(psn, packet.aeth(), now);
        return false;
    }
    const uint32_t distance = may_keep ? ctx_.config.reorder_packets : 0;
    if (!ctx_.dma.has_room()) {
        // Dropped here it would be lost like any packet; placements that end make room.
        if (may_keep && kept_.keep(q_.una, psn, distance)) return true;
        ctx_.count(Counter::unexpected_response);
        return false;
    }
    if (!reach(psn, now)) {
        const bool kept = may_keep && kept_.keep(q_.una, psn, distance);
        gap(psn, true, kept || kept_.contains(psn), now);
        return kept;
    }
    if (packet.op->operation == wire::Operation::ReadResponse)
        on_read_response(psn, packet, now);
    else
        on_atomic_result(packet, now);
    return false;
}

// Acknowledges everything below `target`; false if READ or atomic data is missing before it: an implied NAK.
bool Completer::reach(uint64_t target, Instant now) {
    const uint64_t before = q_.una;
    const bool reached = q_.acknowledge(target);
    if (q_.una != before) progress(now);
    return reached;
}

// Data is missing before the response at `psn`. Patient: it may still come.
void Completer::gap(uint64_t psn, bool data, bool patient, Instant now) {
    if (!patient) {
        nak_due_ = kNever;
        gap_psn_ = 0;
        return implied_nak(psn, data, now);
    }
    gap_data_ = gap_psn_ == 0 ? data : gap_data_ || data;
    gap_psn_ = std::max(gap_psn_, psn);
    if (nak_due_ == kNever) nak_due_ = now + ctx_.config.reorder_time;
}

void Completer::handle_timeout(Instant now) {
    if (now < nak_due_ || !ctx_.can_request()) return;
    // It is here, and waits for room.
    if (kept_.contains(q_.una)) {
        nak_due_ = now + ctx_.config.reorder_time;
        return;
    }
    gap(gap_psn_, gap_data_, false, now);
}

void Completer::progress(Instant now) {
    // Another gap may follow: it gets its own time.
    if (gap_psn_ <= q_.una) gap_psn_ = 0;
    nak_due_ = gap_psn_ != 0 ? now + ctx_.config.reorder_time : kNever;
    retry_.progress(now, q_.una, q_.outstanding());
    if (retry_.prober().tail_is_lost() && q_.outstanding()) q_.rewind();
}

void Completer::on_acknowledge(uint64_t psn, wire::Aeth aeth, Instant now) {
    switch (aeth.kind()) {
        case wire::AethKind::Ack:
            q_.credits.on_ack(aeth);
            if (!reach(psn + 1, now)) gap(psn, false, ctx_.config.reorder_packets != 0, now);
            return;
        case wire::AethKind::RnrNak:
            ctx_.count(Counter::rnr_nak_retry_err);
            if (!reach(psn, now))
                implied_nak(psn, false, now);
            else
                act(retry_.on_rnr_nak(now, aeth.rnr_timer_code()), Counter::req_rnr_retries_exceeded,
                    WcStatus::RnrRetryExcErr);
            return;
        case wire::AethKind::Nak:
            if (aeth.nak_code() == wire::NakCode::PsnSequenceError) ctx_.count(Counter::packet_seq_err);
            if (!reach(psn, now)) return implied_nak(psn, false, now);
            on_nak(aeth.nak_code(), now);
            return;
        case wire::AethKind::Reserved:
            // IBTA 9.7.5.1.2: reserved syndromes are dropped.
            ctx_.count(Counter::unexpected_response);
            return;
    }
}

void Completer::on_nak(wire::NakCode code, Instant now) {
    switch (code) {
        case wire::NakCode::PsnSequenceError:
            return act(retry_.on_sequence_nak(now), Counter::req_transport_retries_exceeded, WcStatus::RetryExcErr);
        case wire::NakCode::InvalidRequest:
            ctx_.count(Counter::req_remote_invalid_request);
            return fail(WcStatus::RemInvReqErr);
        case wire::NakCode::RemoteAccessError:
            ctx_.count(Counter::req_remote_access_errors);
            return fail(WcStatus::RemAccessErr);
        case wire::NakCode::RemoteOperationalError:
            ctx_.count(Counter::req_remote_operational_errors);
            return fail(WcStatus::RemOpErr);
        case wire::NakCode::InvalidRdRequest:
            return fail(WcStatus::RemInvRdReqErr);
    }
    ctx_.count(Counter::unexpected_response);  // reserved NAK code
}

void Completer::on_read_response(uint64_t psn, const wire::PacketView& packet, Instant now) {
    SendEntry& e = q_.ring.at(q_.una_seq);
    if (!e.is_read() && !e.is_atomic_write()) return fail(WcStatus::BadRespErr);
    // IBTA 9.7.6.1.4: the place in the response and its length follow from the PSN. A response may begin anew at any
    // PSN (the request was continued there), so FIRST is as good as MIDDLE and ONLY as good as LAST.
    const uint64_t index = psn - e.first;
    // A19: an ATOMIC WRITE is answered like a READ of nothing.
    const uint32_t length = e.is_read() ? payload_at(e.wqe.length, ctx_.mtu, index) : 0;
    if (packet.op->ends_message() != (psn + 1 == e.end) || packet.payload.size() != length)
        return fail(WcStatus::BadRespErr);
    if (packet.op->has(wire::ext::kAeth)) {
        if (packet.aeth().kind() != wire::AethKind::Ack) return fail(WcStatus::BadRespErr);
        q_.credits.on_ack(packet.aeth());
    }
    if (!place(e, index * ctx_.mtu, packet.payload.data(), length)) return;
    q_.take_response();
    progress(now);
}

void Completer::on_atomic_result(const wire::PacketView& packet, Instant now) {
    SendEntry& e = q_.ring.at(q_.una_seq);
    if (!e.is_atomic() || packet.aeth().kind() != wire::AethKind::Ack) return fail(WcStatus::BadRespErr);
    q_.credits.on_ack(packet.aeth());
    e.atomic_result = packet.atomic_ack_eth().original;
    if (!place(e, 0, &e.atomic_result, sizeof e.atomic_result)) return;
    q_.take_response();
    progress(now);
}

bool Completer::place(SendEntry& e, uint64_t offset, const void* source, uint32_t length) {
    if (length == 0) return true;
    std::array<memory::Segment, kMaxSge> segments;
    uint32_t count = 0;
    if (resolve_range(ctx_.env.keys, ctx_.config.pd, q_.sges_of(q_.una_seq), offset, length, access_flags::kLocalWrite,
                      segments, count) != SgeStatus::Ok) {
        fail(WcStatus::LocProtErr);
        return false;
    }
    if (!place_directly(ctx_.env, ctx_.dma, {segments.data(), count}, static_cast<const std::byte*>(source), false)) {
        DmaOp& op = ctx_.dma.push({segments.data(), count});
        op.source = source;
        op.ref = q_.una_seq;
        op.length = static_cast<uint16_t>(length);
        op.kind = DmaKind::Place;
        op.owner = DmaOwner::Completer;
        op.deferrable = e.wqe.length <= kMaxDeferredBytes;
        op.wqe_index = e.wqe.index;
    }
    e.dma_mark = q_.data_mark = ctx_.dma.mark();
    return true;
}

void Completer::placed(const DmaOp& op, DmaStatus status) {
    if (status == DmaStatus::Ok) return;
    fail_send(ctx_, q_, op.ref, WcStatus::LocProtErr);
    retry_.stop();
}

void Completer::implied_nak(uint64_t psn, bool data, Instant now) {
    const RetryVerdict verdict = retry_.on_implied_nak(now, psn, data);
    if (verdict != RetryVerdict::Ignore) ctx_.count(Counter::implied_nak_seq_err);
    act(verdict, Counter::req_transport_retries_exceeded, WcStatus::RetryExcErr);
}

void Completer::act(RetryVerdict verdict, Counter exhausted, WcStatus status) {
    if (verdict == RetryVerdict::GoBack) return q_.rewind();
    if (verdict == RetryVerdict::Ignore) return;
    ctx_.count(exhausted);
    fail(status);
}

void Completer::fail(WcStatus status) {
    fail_send(ctx_, q_, q_.una_seq, status);
    retry_.stop();
}

}  // namespace rocemu::transport
