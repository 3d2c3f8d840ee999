// SPDX-License-Identifier: BSD-3-Clause
// See datagram_responder.h.
#include "transport/datagram_responder.h"

#include <array>

#include "transport/placement_op.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

// IBTA 9.6.1.4: what no receive holds is dropped silently.
bool DatagramResponder::receivable(uint32_t length) const {
    if (is_short()) {
        drop(rq_.has_free() ? Counter::responder_backlog_drops : Counter::ud_no_buffer_drops);
        return false;
    }
    const RecvWqe& wqe = rq_.ring.at(rq_.next).wqe;
    if (wqe.preset_error == WcStatus::Success && wqe.length < length) {
        drop(Counter::ud_no_buffer_drops);
        return false;
    }
    return true;
}

ReceiveEntry* DatagramResponder::take(const wire::PacketView& packet, std::span<const Piece> pieces) {
    uint32_t length = 0;
    for (const Piece& piece : pieces) length += static_cast<uint32_t>(piece.size());
    if (!receivable(length)) return nullptr;
    const uint64_t receive = rq_.take();
    ReceiveEntry& e = rq_.ring.at(receive);
    if (e.wqe.preset_error != WcStatus::Success) {
        fail(receive, e.wqe.preset_error);
        return nullptr;
    }
    uint32_t offset = 0;
    for (const Piece& piece : pieces) {
        if (!place(receive, offset, piece)) {
            fail(receive, WcStatus::LocProtErr);
            return nullptr;
        }
        offset += static_cast<uint32_t>(piece.size());
    }
    fill_receive(e, packet, length, ctx_.dma.mark());
    ctx_.count(Counter::rx_send_messages);
    return &e;
}

bool DatagramResponder::place(uint64_t receive, uint32_t offset, Piece bytes) {
    std::array<memory::Segment, kMaxSge> segments;
    uint32_t count = 0;
    const auto length = static_cast<uint32_t>(bytes.size());
    if (resolve_range(ctx_.env.keys, ctx_.recv_pd, rq_.sges_of(receive), offset, length, access_flags::kLocalWrite,
                      segments, count) != SgeStatus::Ok)
        return false;
    push_placement(ctx_, 0, bytes, {segments.data(), count}, receive, &rq_.ring.at(receive), 0, true);
    return true;
}

// IBTA 9.9.3.1.3: the receive's own memory is wrong: the WQE carries the error, the QP goes to ERR.
void DatagramResponder::fail(uint64_t receive, WcStatus status) {
    if (!rq_.failed || receive < rq_.failed_seq) rq_.fail(receive, status);
    ctx_.enter_error();
}

bool DatagramResponder::is_short() const {
    return !rq_.has_free() || !ctx_.dma.has_room(kMaxPieces - 1);
}

void DatagramResponder::executed(const DmaOp& op, DmaStatus status) {
    if (status != DmaStatus::Ok) fail(op.ref, WcStatus::LocProtErr);
}

}  // namespace rocemu::transport
