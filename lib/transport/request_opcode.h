// SPDX-License-Identifier: BSD-3-Clause
// Which BTH opcode a work request becomes, by its place in the message, and which WC opcode it completes with.
// Read IBTA volume 1, 9.2.1 (opcodes) and 11.4.1.1 (operation types by transport), annex A14 (XRC: as RC, in a class of
// its own).
#pragma once

#include <array>
#include <cstdint>

#include "base/verbs_types.h"
#include "wire/opcode.h"

namespace rocemu::transport {

// What the SGEs of a request are for. Data that flows out of them may stand in the WQE instead (inline, IBTA 11.4.1.1).
enum class SgeUse : uint8_t { Nothing, Gather, Scatter };

struct RequestOpcodes {
    bool supported = false;
    SgeUse sges = SgeUse::Nothing;
    wire::Opcode first{}, middle{}, last{}, only{};
    WcOpcode completion = WcOpcode::Send;
};

// IBTA 9.2.1: the upper three bits of an opcode are the transport. XRC has the operations of RC under the same lower five.
inline constexpr uint8_t kXrcOpcodes = 0xa0;
static_assert(static_cast<uint8_t>(wire::Opcode::XrcFetchAdd) ==
              (static_cast<uint8_t>(wire::Opcode::RcFetchAdd) | kXrcOpcodes));

[[nodiscard]] constexpr bool is_xrc(QpType type) {
    return type == QpType::XrcSend || type == QpType::XrcRecv;
}
// An RC opcode as a QP of this type sends it.
[[nodiscard]] constexpr uint8_t acked_opcode(QpType type, wire::Opcode rc) {
    return static_cast<uint8_t>(static_cast<uint8_t>(rc) | (is_xrc(type) ? kXrcOpcodes : 0));
}
// IBTA 9.6.1.2.1: the opcode must be one of the QP's transport.
[[nodiscard]] constexpr bool transport_fits(QpType type, wire::Transport transport) {
    switch (transport) {
        case wire::Transport::Rc:
            return type == QpType::Rc;
        case wire::Transport::Uc:
            return type == QpType::Uc;
        case wire::Transport::Ud:
            return type == QpType::Ud;
        case wire::Transport::Xrc:
            return is_xrc(type);
        case wire::Transport::Raw:
            return type == QpType::RawPacket;
        case wire::Transport::Cnp:
            return false;  // of no transport
    }
    return false;
}

namespace detail {
using enum wire::Opcode;
using enum SgeUse;
// Indexed by WrOpcode, as far as a transport has any; the first one for XRC too.
inline constexpr std::array<RequestOpcodes, kWrOpcodes> kRcRequests{{
    {true, Gather, RcWriteFirst, RcWriteMiddle, RcWriteLast, RcWriteOnly, WcOpcode::RdmaWrite},
    {true, Gather, RcWriteFirst, RcWriteMiddle, RcWriteLastImm, RcWriteOnlyImm, WcOpcode::RdmaWrite},
    {true, Gather, RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly, WcOpcode::Send},
    {true, Gather, RcSendFirst, RcSendMiddle, RcSendLastImm, RcSendOnlyImm, WcOpcode::Send},
    {true, Scatter, RcReadRequest, RcReadRequest, RcReadRequest, RcReadRequest, WcOpcode::RdmaRead},
    {true, Scatter, RcCompareSwap, RcCompareSwap, RcCompareSwap, RcCompareSwap, WcOpcode::CompSwap},
    {true, Scatter, RcFetchAdd, RcFetchAdd, RcFetchAdd, RcFetchAdd, WcOpcode::FetchAdd},
    {true, Nothing, {}, {}, {}, {}, WcOpcode::LocalInv},
    {true, Nothing, {}, {}, {}, {}, WcOpcode::BindMw},
    {true, Gather, RcSendFirst, RcSendMiddle, RcSendLastInv, RcSendOnlyInv, WcOpcode::Send},
    {false, Nothing, {}, {}, {}, {}, WcOpcode::Tso},
    {},
    {},
    {},
    {},
    {true, Gather, RcAtomicWrite, RcAtomicWrite, RcAtomicWrite, RcAtomicWrite, WcOpcode::AtomicWrite},
}};
inline constexpr std::array<RequestOpcodes, kWrOpcodes> kUcRequests{{
    {true, Gather, UcWriteFirst, UcWriteMiddle, UcWriteLast, UcWriteOnly, WcOpcode::RdmaWrite},
    {true, Gather, UcWriteFirst, UcWriteMiddle, UcWriteLastImm, UcWriteOnlyImm, WcOpcode::RdmaWrite},
    {true, Gather, UcSendFirst, UcSendMiddle, UcSendLast, UcSendOnly, WcOpcode::Send},
    {true, Gather, UcSendFirst, UcSendMiddle, UcSendLastImm, UcSendOnlyImm, WcOpcode::Send},
    {},
    {},
    {},
    {true, Nothing, {}, {}, {}, {}, WcOpcode::LocalInv},
    {true, Nothing, {}, {}, {}, {}, WcOpcode::BindMw},
}};
inline constexpr std::array<RequestOpcodes, kWrOpcodes> kUdRequests{{
    {},
    {},
    {true, Gather, UdSendOnly, UdSendOnly, UdSendOnly, UdSendOnly, WcOpcode::Send},
    {true, Gather, UdSendOnlyImm, UdSendOnlyImm, UdSendOnlyImm, UdSendOnlyImm, WcOpcode::Send},
}};
inline constexpr std::array<RequestOpcodes, kWrOpcodes> kRawRequests{{
    {},
    {},
    {true, Gather, {}, {}, {}, {}, WcOpcode::Send},
}};
}  // namespace detail

// nullptr: no such work request on a QP of this type.
[[nodiscard]] constexpr const RequestOpcodes* find_request(QpType type, WrOpcode op) {
    if (type == QpType::XrcRecv) return nullptr;  // it has no send queue
    const auto& table = type == QpType::Uc          ? detail::kUcRequests
                        : type == QpType::Ud        ? detail::kUdRequests
                        : type == QpType::RawPacket ? detail::kRawRequests
                                                    : detail::kRcRequests;
    const auto i = static_cast<size_t>(op);
    return i < table.size() && table[i].supported ? &table[i] : nullptr;
}

[[nodiscard]] constexpr bool may_be_inline(QpType type, WrOpcode op) {
    const RequestOpcodes* row = find_request(type, op);
    return row != nullptr && row->sges == SgeUse::Gather;
}

// It fills or completes a receive WQE of the peer.
[[nodiscard]] constexpr bool takes_receive(WrOpcode op) {
    return op == WrOpcode::Send || op == WrOpcode::SendWithImm || op == WrOpcode::SendWithInv ||
           op == WrOpcode::RdmaWriteWithImm;
}

[[nodiscard]] constexpr bool request_supported(QpType type, WrOpcode op) {
    return find_request(type, op) != nullptr;
}

// Precondition: request_supported(type, op) and a request that is sent (not LOCAL_INV or BIND_MW).
[[nodiscard]] constexpr uint8_t request_opcode(QpType type, WrOpcode op, bool first, bool last) {
    const RequestOpcodes& row = *find_request(type, op);
    const wire::Opcode code = first ? (last ? row.only : row.first) : (last ? row.last : row.middle);
    return acked_opcode(type, code);
}

// Also of work requests that the QP's type does not have: they complete with an error.
[[nodiscard]] constexpr WcOpcode completion_opcode(WrOpcode op) {
    const auto i = static_cast<size_t>(op);
    return i < detail::kRcRequests.size() ? detail::kRcRequests[i].completion : WcOpcode::Send;
}

}  // namespace rocemu::transport
