// SPDX-License-Identifier: BSD-3-Clause
// parse_frame: the one place where received bytes become a PacketView. Every length is checked here, before anything
// is read; what comes out can be used without further bounds checks. Read IBTA volume 1, 9.6, annexes A16, A17.3,
// A17.4.
//
// Not checked here: the ICRC (see icrc.h), addresses, and rules that need a QP (path MTU, opcode order, Q_Key).
#pragma once

#include <span>

#include "wire/drop_reason.h"
#include "wire/packet_view.h"

namespace rocemu::wire {

struct ParseResult {
    enum class Kind : uint8_t {
        Roce,     // the PacketView is filled
        NotRoce,  // another protocol (ARP, ND, foreign UDP port): the frame is somebody else's
        Drop,     // RoCE, but malformed: count `reason`, answer nothing
    };
    Kind kind = Kind::Roce;
    DropReason reason = DropReason::None;

    [[nodiscard]] constexpr bool ok() const { return kind == Kind::Roce; }
};

// `frame` starts at the destination MAC and has no FCS; trailing Ethernet padding is allowed. `out` is complete only
// after Kind::Roce; otherwise its fields are unspecified.
[[nodiscard]] ParseResult parse_frame(std::span<const std::byte> frame, PacketView& out);

}  // namespace rocemu::wire
