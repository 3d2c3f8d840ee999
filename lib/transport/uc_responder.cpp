// SPDX-License-Identifier: BSD-3-Clause
// See uc_responder.h.
#include "transport/uc_responder.h"

#include "transport/placement_op.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

void UcResponder::handle(const wire::PacketView& packet) {
    taken_ = false;
    segment_count_ = 0;
    Segments segments;
    if (check_sequence(packet) && take_receive(packet) && check_length(packet) && check_key(packet, segments))
        execute(packet, segments);
}

// IBTA 9.8.2.2.1: any gap ends the message; FIRST and ONLY are welcome with every PSN.
bool UcResponder::check_sequence(const wire::PacketView& packet) {
    const bool gap = Psn(packet.bth.psn) != psn_of(expected_);
    const auto step = Psn(packet.bth.psn).distance_from(psn_of(expected_));
    expected_ += static_cast<uint64_t>(static_cast<int64_t>(step)) + 1;
    if (packet.op->starts_message()) {
        if (message_.kind != InboundMessage::Kind::None) abandon();
        dropping_ = false;
        return true;
    }
    if (dropping_) return false;
    return (!gap && message_.continues(*packet.op)) || drop();
}

bool UcResponder::take_receive(const wire::PacketView& packet) {
    if (!ctx_.dma.has_room()) return drop();
    if (sends(packet) && !packet.op->starts_message()) {
        taken_ = true;
        receive_ = message_.receive;
        return true;
    }
    if (!packet.op->consumes_receive() || !(sends(packet) || packet.op->ends_message())) return true;
    if (!rq_.has_free()) return drop();  // IBTA 9.8.2.2.4
    taken_ = true;
    receive_ = rq_.take();
    if (sends(packet)) message_.begin_send(receive_);
    const WcStatus preset = rq_.ring.at(receive_).wqe.preset_error;
    return preset == WcStatus::Success || fail(preset);
}

bool UcResponder::check_length(const wire::PacketView& packet) {
    const uint64_t room = sends(packet) ? rq_.ring.at(receive_).wqe.length : 0;
    return message_.check_length(packet, ctx_.mtu, room) == InboundMessage::Fault::None || drop();
}

bool UcResponder::check_key(const wire::PacketView& packet, Segments& segments) {
    const auto n = static_cast<uint32_t>(packet.payload.size());
    if (sends(packet)) {
        const SgeStatus s = resolve_range(ctx_.env.keys, ctx_.recv_pd, rq_.sges_of(receive_), message_.received, n,
                                          access_flags::kLocalWrite, segments, segment_count_);
        return s == SgeStatus::Ok || fail(WcStatus::LocProtErr);
    }
    if (!(ctx_.attr.access_flags & access_flags::kRemoteWrite)) return drop();
    InboundMessage next = message_;
    next.take_addresses(packet);
    // The first packet is checked for the whole message; each later one again: the region may have gone.
    const uint32_t whole = packet.op->starts_message() ? next.write_total : n;
    if (whole == 0) return true;  // IBTA C9-88
    if (ctx_.resolve_remote(next.write_rkey, next.write_addr, whole, access_flags::kRemoteWrite, segments[0]) !=
        memory::KeyStatus::Ok)
        return drop();
    segments[0].length = n;
    segment_count_ = 1;
    return true;
}

void UcResponder::execute(const wire::PacketView& packet, const Segments& segments) {
    message_.take_addresses(packet);
    if (!sends(packet) && packet.op->starts_message()) ctx_.count(Counter::rx_write_requests);
    push_placement(ctx_, expected_ - 1, packet.payload, {segments.data(), segment_count_}, receive_,
                   sends(packet) ? &rq_.ring.at(receive_) : nullptr, message_.received, packet.op->ends_message());
    message_.advance(packet);
    if (!packet.op->ends_message()) return;
    if (sends(packet)) ctx_.count(Counter::rx_send_messages);
    if (!taken_) return;
    ReceiveEntry& e = rq_.ring.at(receive_);
    fill_receive(e, packet, message_.length(sends(packet)), ctx_.dma.mark());
    e.src_qp = ctx_.attr.dest_qpn;
}

void UcResponder::abandon() {
    ctx_.count(Counter::uc_dropped_messages);
    // Its receive is the newest that was taken: the next SEND gets it.
    if (message_.kind == InboundMessage::Kind::Send) rq_.next = message_.receive;
    message_ = {};
}

bool UcResponder::drop() {
    if (taken_ && message_.kind != InboundMessage::Kind::Send) rq_.next = receive_;
    abandon();
    dropping_ = true;
    return false;
}

// IBTA 9.9.3: the memory of a receive is wrong: the WQE carries the error, the QP goes to ERR.
bool UcResponder::fail(WcStatus status) {
    if (!rq_.failed || receive_ < rq_.failed_seq) rq_.fail(receive_, status);
    ctx_.enter_error();
    return false;
}

void UcResponder::executed(const DmaOp& op, DmaStatus status) {
    if (status == DmaStatus::Ok) return;
    receive_ = op.ref;
    if (op.takes_receive)
        (void)fail(WcStatus::LocProtErr);
    else if (ctx_.can_respond()) {
        // The region of a WRITE lost its memory: nobody else can be told.
        ctx_.enter_error();
        ctx_.raise(AsyncEvent::QpFatal);
    }
}

bool UcResponder::must_wait(const wire::PacketView& packet) const {
    const wire::OpcodeInfo& op = *packet.op;
    const bool needs = op.operation == wire::Operation::Send ? op.starts_message() : op.consumes_receive();
    return (needs && !rq_.has_free()) || !ctx_.dma.has_room();
}

}  // namespace rocemu::transport
