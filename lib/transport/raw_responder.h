// SPDX-License-Identifier: BSD-3-Clause
// RawResponder: the receive side of a raw packet QP: frames as they came, from the Ethernet header on, one a receive.
// Which frames those are is decided by flow rules before they come here. Read the ibv_create_qp and ibv_create_flow man
// pages (IBV_QPT_RAW_PACKET); IBTA says nothing of it beyond 3.2.9 (raw datagrams).
#pragma once

#include "transport/datagram_responder.h"

namespace rocemu::transport {

class RawResponder : public DatagramResponder {
  public:
    using DatagramResponder::DatagramResponder;

    void handle(const wire::PacketView& packet) {
        if (!rq_.failed) take(packet, std::span(&packet.payload, 1));
    }
};

}  // namespace rocemu::transport
