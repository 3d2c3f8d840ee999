// SPDX-License-Identifier: BSD-3-Clause
// Which BTH opcode a work request becomes, by its place in the message, and which WC opcode it completes with.
// Read IBTA volume 1, 9.2.1 (opcodes) and 11.4.1.1 (operation types by transport).
#pragma once

#include <array>
#include <cstdint>

#include "base/verbs_types.h"
#include "wire/opcode.h"

namespace rocemu::transport {

struct RequestOpcodes {
    bool supported = false;
    wire::Opcode first{}, middle{}, last{}, only{};
    WcOpcode completion = WcOpcode::Send;
};

namespace detail {
using enum wire::Opcode;
// Indexed by WrOpcode.
inline constexpr std::array<RequestOpcodes, 12> kRcRequests{{
    {true, RcWriteFirst, RcWriteMiddle, RcWriteLast, RcWriteOnly, WcOpcode::RdmaWrite},
    {true, RcWriteFirst, RcWriteMiddle, RcWriteLastImm, RcWriteOnlyImm, WcOpcode::RdmaWrite},
    {true, RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly, WcOpcode::Send},
    {true, RcSendFirst, RcSendMiddle, RcSendLastImm, RcSendOnlyImm, WcOpcode::Send},
    {true, RcReadRequest, RcReadRequest, RcReadRequest, RcReadRequest, WcOpcode::RdmaRead},
    {true, RcCompareSwap, RcCompareSwap, RcCompareSwap, RcCompareSwap, WcOpcode::CompSwap},
    {true, RcFetchAdd, RcFetchAdd, RcFetchAdd, RcFetchAdd, WcOpcode::FetchAdd},
    {false, {}, {}, {}, {}, WcOpcode::LocalInv},
    {false, {}, {}, {}, {}, WcOpcode::BindMw},
    {true, RcSendFirst, RcSendMiddle, RcSendLastInv, RcSendOnlyInv, WcOpcode::Send},
    {false, {}, {}, {}, {}, WcOpcode::Tso},
    {false, {}, {}, {}, {}, WcOpcode::Send},
}};
}  // namespace detail

[[nodiscard]] constexpr bool request_supported(WrOpcode op) {
    const auto i = static_cast<size_t>(op);
    return i < detail::kRcRequests.size() && detail::kRcRequests[i].supported;
}

// Precondition: request_supported(op).
// It fills or completes a receive WQE of the peer.
[[nodiscard]] constexpr bool takes_receive(WrOpcode op) {
    return op == WrOpcode::Send || op == WrOpcode::SendWithImm || op == WrOpcode::SendWithInv ||
           op == WrOpcode::RdmaWriteWithImm;
}

[[nodiscard]] constexpr uint8_t request_opcode(WrOpcode op, bool first, bool last) {
    const RequestOpcodes& row = detail::kRcRequests[static_cast<size_t>(op)];
    return static_cast<uint8_t>(first ? (last ? row.only : row.first) : (last ? row.last : row.middle));
}

[[nodiscard]] constexpr WcOpcode completion_opcode(WrOpcode op) {
    const auto i = static_cast<size_t>(op);
    return i < detail::kRcRequests.size() ? detail::kRcRequests[i].completion : WcOpcode::Send;
}

}  // namespace rocemu::transport
