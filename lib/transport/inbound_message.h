// SPDX-License-Identifier: BSD-3-Clause
// InboundMessage: the SEND or WRITE that is coming in, packet by packet, and whether the next packet continues it. What
// follows from a fault is the transport's business: RC refuses it with a NAK, UC drops the message.
// Read IBTA volume 1, 9.7.4.1.2 and 9.8.2.2 (order of opcodes), 9.7.4.1.6 (lengths), C9-92 to C9-94.
#pragma once

#include <cstdint>

#include "wire/packet_view.h"

namespace rocemu::transport {

struct InboundMessage {
    enum class Kind : uint8_t { None, Send, Write };
    enum class Fault : uint8_t {
        None,
        Shape,    // a length that cannot be, by opcode, path MTU or RETH
        TooLong,  // a SEND that its receive does not hold
    };

    Kind kind = Kind::None;  // None: between messages
    uint64_t receive = 0;    // SEND: its receive WQE
    uint64_t received = 0;   // SEND: bytes so far
    uint64_t write_addr = 0;
    uint32_t write_rkey = 0;
    uint32_t write_left = 0;  // bytes
    uint32_t write_total = 0;
    uint32_t srqn = 0;  // XRC: the shared receive queue it names

    [[nodiscard]] static Kind kind_of(const wire::OpcodeInfo& op);
    // FIRST and ONLY begin a message, MIDDLE and LAST continue one of the same kind.
    [[nodiscard]] bool continues(const wire::OpcodeInfo& op) const;
    void begin_send(uint64_t receive_wqe) {
        receive = receive_wqe;
        received = 0;
    }
    // Of a SEND or WRITE packet in order. `room`: bytes of the receive a SEND goes to.
    [[nodiscard]] Fault check_length(const wire::PacketView& packet, uint32_t mtu, uint64_t room) const;
    // The packet was accepted. take_addresses before its payload is placed, advance afterwards.
    void take_addresses(const wire::PacketView& packet);
    void advance(const wire::PacketView& packet);
    // Bytes of the whole message, when its last packet was accepted.
    [[nodiscard]] uint32_t length(bool send) const { return send ? static_cast<uint32_t>(received) : write_total; }
};

}  // namespace rocemu::transport
