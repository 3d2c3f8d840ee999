// SPDX-License-Identifier: BSD-3-Clause
// UdResponder: the receive side of a datagram QP. A packet is taken behind 40 bytes that hold the IP header or GRH it
// came with. Read IBTA volume 1, 9.8.3 (UD), 11.4.1.2 (the GRH area), annex A17.4.5 (IP headers in it).
#pragma once

#include "transport/datagram_responder.h"

namespace rocemu::transport {

// What stands in front of the payload of every UD receive.
inline constexpr uint32_t kGrhArea = 40;

class UdResponder : public DatagramResponder {
  public:
    using DatagramResponder::DatagramResponder;

    void handle(const wire::PacketView& packet);
    // Who does not know the Q_Key must not fill the places of those that wait.
    [[nodiscard]] bool must_wait(const wire::PacketView& packet) const { return has_qkey(packet) && is_short(); }

  private:
    [[nodiscard]] bool has_qkey(const wire::PacketView& packet) const { return packet.deth().qkey == ctx_.attr.qkey; }
};

}  // namespace rocemu::transport
