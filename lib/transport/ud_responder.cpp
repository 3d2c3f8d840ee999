// SPDX-License-Identifier: BSD-3-Clause
// See ud_responder.h.
#include "transport/ud_responder.h"

#include <array>

#include "transport/placement_op.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

namespace {

// Pieces of a message: what precedes an IPv4 header, the header, the payload.
constexpr uint32_t kPieces = 3;
constexpr uint32_t kIpv4Offset = 20;
// A17.4.5.2: an IPv4 header fills the last 20 bytes of the area; the first 20 are undefined, but must not look like
// another IP header.
constexpr std::array<std::byte, kIpv4Offset> kNothing{};

// Which header the area holds. ConnectX tells it in the SL, and UCX reads it there.
uint8_t header_type_of(wire::NetworkType network) {
    switch (network) {
        case wire::NetworkType::RoceV1:
            return 0;
        case wire::NetworkType::V2Ipv6:
            return 1;
        case wire::NetworkType::V2Ipv4:
            return 2;
    }
    return 0;
}

}  // namespace

// IBTA 9.8.3.1 and 9.6.1.4: Q_Key, length, a receive that holds it. What fails is dropped silently.
bool UdResponder::acceptable(const wire::PacketView& packet) const {
    const auto refuse = [this](Counter c) {
        ctx_.count(c);
        return false;
    };
    if (packet.deth().qkey != ctx_.attr.qkey) return refuse(Counter::rx_qkey_mismatch);
    if (packet.payload.size() > ctx_.mtu) return refuse(Counter::rx_malformed);
    if (!rq_.has_free()) return refuse(Counter::ud_no_buffer_drops);
    const RecvWqe& wqe = rq_.ring.at(rq_.next).wqe;
    if (wqe.preset_error == WcStatus::Success && wqe.length < kGrhArea + packet.payload.size())
        return refuse(Counter::ud_no_buffer_drops);
    if (!ctx_.dma.has_room(kPieces - 1)) return refuse(Counter::responder_backlog_drops);
    return true;
}

void UdResponder::handle(const wire::PacketView& packet) {
    if (rq_.failed || !acceptable(packet)) return;
    const uint64_t receive = rq_.take();
    ReceiveEntry& e = rq_.ring.at(receive);
    if (e.wqe.preset_error != WcStatus::Success) return fail(receive, e.wqe.preset_error);
    const auto header = packet.l3_header();
    const auto payload = static_cast<uint32_t>(packet.payload.size());
    const uint32_t gap = kGrhArea - static_cast<uint32_t>(header.size());
    if (!place(receive, 0, std::span(kNothing).first(gap)) || !place(receive, gap, header) ||
        !place(receive, kGrhArea, packet.payload))
        return fail(receive, WcStatus::LocProtErr);
    fill_receive(e, packet, kGrhArea + payload, ctx_.dma.mark());
    e.wc_flags |= wc_flags::kGrh;
    e.src_qp = packet.deth().src_qp;
    e.sl = header_type_of(packet.network);
    ctx_.count(Counter::rx_send_messages);
}

bool UdResponder::place(uint64_t receive, uint32_t offset, std::span<const std::byte> bytes) {
    std::array<memory::Segment, kMaxSge> segments;
    uint32_t count = 0;
    const auto length = static_cast<uint32_t>(bytes.size());
    if (resolve_range(ctx_.env.keys, ctx_.recv_pd, rq_.sges_of(receive), offset, length, access_flags::kLocalWrite,
                      segments, count) != SgeStatus::Ok)
        return false;
    push_placement(ctx_.dma, 0, bytes, {segments.data(), count}, receive, &rq_.ring.at(receive));
    return true;
}

// IBTA 9.9.3.1.3: the receive's own memory is wrong: the WQE carries the error, the QP goes to ERR.
void UdResponder::fail(uint64_t receive, WcStatus status) {
    if (!rq_.failed || receive < rq_.failed_seq) rq_.fail(receive, status);
    ctx_.enter_error();
}

bool UdResponder::must_wait() const {
    return !rq_.has_free() || !ctx_.dma.has_room(kPieces - 1);
}

void UdResponder::executed(const DmaOp& op, DmaStatus status) {
    if (status != DmaStatus::Ok) fail(op.ref, WcStatus::LocProtErr);
}

}  // namespace rocemu::transport
