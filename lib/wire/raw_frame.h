// SPDX-License-Identifier: BSD-3-Clause
// A frame that is nobody's but its reader's: raw packet QPs get it as a message without headers, the whole frame being
// the payload. kRawFrame stands where a RoCE packet has its opcode. Also the least bytes that Ethernet carries (IEEE
// 802.3 4A.2.3.2.4): a NIC fills shorter frames up with zeros.
#pragma once

#include <span>

#include "wire/eth.h"
#include "wire/packet_view.h"

namespace rocemu::wire {

inline constexpr size_t kMinFrame = 60;  // bytes, without FCS

inline constexpr OpcodeInfo kRawFrame =
    detail::make_info("raw frame", Transport::Raw, Operation::Send, Position::Only, 0, true);

[[nodiscard]] inline PacketView raw_view(std::span<const std::byte> frame) {
    PacketView view;
    view.op = &kRawFrame;
    view.payload = frame;
    return view;
}

}  // namespace rocemu::wire
