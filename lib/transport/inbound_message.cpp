// SPDX-License-Identifier: BSD-3-Clause
// See inbound_message.h.
#include "transport/inbound_message.h"

#include "base/verbs_types.h"

namespace rocemu::transport {

using wire::Operation;
using wire::Position;

InboundMessage::Kind InboundMessage::kind_of(const wire::OpcodeInfo& op) {
    return op.operation == Operation::Send    ? Kind::Send
           : op.operation == Operation::Write ? Kind::Write
                                              : Kind::None;
}

bool InboundMessage::continues(const wire::OpcodeInfo& op) const {
    if (op.starts_message()) return kind == Kind::None;
    return kind != Kind::None && kind == kind_of(op);
}

InboundMessage::Fault InboundMessage::check_length(const wire::PacketView& packet, uint32_t mtu, uint64_t room) const {
    const auto n = static_cast<uint32_t>(packet.payload.size());
    const Position position = packet.op->position;
    const bool whole = position == Position::First || position == Position::Middle;
    const bool fits = whole ? n == mtu : n <= mtu && (n != 0 || position == Position::Only);
    if (!fits) return Fault::Shape;
    if (packet.op->operation == Operation::Send) {
        const uint64_t total = received + n;
        if (total > room) return Fault::TooLong;
        return total > kMaxMessageBytes ? Fault::Shape : Fault::None;
    }
    // The payload must add up to the length the RETH announced.
    bool right = false;
    switch (position) {
        case Position::First: {
            const uint32_t total = packet.reth().length;
            right = total > n && total <= kMaxMessageBytes;
            break;
        }
        case Position::Middle:
            right = n < write_left;
            break;
        case Position::Last:
            right = n == write_left;
            break;
        case Position::Only:
            right = n == packet.reth().length;
            break;
    }
    return right ? Fault::None : Fault::Shape;
}

void InboundMessage::take_addresses(const wire::PacketView& packet) {
    if (packet.op->operation != Operation::Write || !packet.op->starts_message()) return;
    const wire::Reth reth = packet.reth();
    write_addr = reth.va;
    write_rkey = reth.rkey;
    write_total = write_left = reth.length;
}

void InboundMessage::advance(const wire::PacketView& packet) {
    const auto n = static_cast<uint32_t>(packet.payload.size());
    if (packet.op->operation == Operation::Send) {
        received += n;
    } else if (packet.op->operation == Operation::Write) {
        write_addr += n;
        write_left -= n;
    }
    if (packet.op->ends_message())
        kind = Kind::None;
    else if (packet.op->starts_message())
        kind = kind_of(*packet.op);
}

}  // namespace rocemu::transport
