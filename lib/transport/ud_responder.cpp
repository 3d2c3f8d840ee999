// SPDX-License-Identifier: BSD-3-Clause
// See ud_responder.h.
#include "transport/ud_responder.h"

#include <array>

namespace rocemu::transport {

namespace {

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
void UdResponder::handle(const wire::PacketView& packet) {
    if (rq_.failed) return;
    if (!has_qkey(packet)) return drop(Counter::rx_qkey_mismatch);
    if (packet.payload.size() > ctx_.mtu) return drop(Counter::rx_malformed);
    const auto header = packet.l3_header();
    const std::array<Piece, kMaxPieces> pieces{std::span(kNothing).first(kGrhArea - header.size()), header, packet.payload};
    ReceiveEntry* e = take(packet, pieces);
    if (e == nullptr) return;
    e->wc_flags |= wc_flags::kGrh;
    e->src_qp = packet.deth().src_qp;
    e->sl = header_type_of(packet.network);
}

}  // namespace rocemu::transport
