// SPDX-License-Identifier: BSD-3-Clause
// DropReason: why a received frame went no further, declared once. Counters and the comments of the capture tap are
// made from this table: adding a reason is adding a row. Read IBTA volume 1, 9.6 (packet validation) and annex A17.4.
//
// X(enumerator, counter name, help text). Rows above the first comment come from parse_frame, those below from the
// stages behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#define ROCEMU_DROP_REASONS(X)                                                                     \
    X(None, "none", "not dropped")                                                                 \
    X(FrameTooShort, "frame_too_short", "frame ends inside the Ethernet, IP, GRH or UDP header")   \
    X(IpVersion, "ip_version", "version field of the IP header or GRH does not fit the EtherType") \
    X(IpOptions, "ip_options", "IPv4 header length is not five words")                             \
    X(IpFragment, "ip_fragment", "IPv4 fragment")                                                  \
    X(IpChecksum, "ip_checksum", "IPv4 header checksum is wrong")                                  \
    X(IpLength, "ip_length", "IP or GRH length does not fit the frame")                            \
    X(GrhNextHeader, "grh_next_header", "GRH does not announce a BTH")                             \
    X(UdpLength, "udp_length", "UDP length differs from the IP payload")                           \
    X(PacketTooShort, "packet_too_short", "no room for a BTH and an ICRC")                         \
    X(PacketLengthAlignment, "packet_length_alignment", "length is not a multiple of four bytes")  \
    X(TransportVersion, "transport_version", "TVer of the BTH is not zero")                        \
    X(UnknownOpcode, "unknown_opcode", "opcode is reserved or of an unsupported transport")        \
    X(PkeyMismatch, "pkey_mismatch", "P_Key is not the one of the default partition")              \
    X(DestQpZero, "dest_qp_zero", "destination QP 0 does not exist in RoCE")                       \
    X(ExtHeaderTooLong, "ext_header_too_long", "packet ends inside the extension headers")         \
    X(PadTooLong, "pad_too_long", "more pad bytes than bytes behind the headers")                  \
    X(UnexpectedPayload, "unexpected_payload", "payload behind an opcode that carries none")       \
    /* behind the parse */                                                                         \
    X(IcrcMismatch, "icrc_mismatch", "ICRC is wrong")                                              \
    X(NotOurMac, "not_our_mac", "destination MAC address is not of this port")                     \
    X(NotOurVlan, "not_our_vlan", "VLAN is not configured on this port")                           \
    X(NotOurGid, "not_our_gid", "destination address is not in the GID table")                     \
    X(UnknownQp, "unknown_qp", "destination QP does not exist")                                    \
    X(QpState, "qp_state", "destination QP does not receive in its state")                         \
    X(QpTransport, "qp_transport", "opcode is of another transport than the destination QP")       \
    X(QpNetwork, "qp_network", "network type is not the one of the destination QP")                \
    X(QpSource, "qp_source", "source address is not the peer of the destination QP")               \
    X(QkeyMismatch, "qkey_mismatch", "Q_Key is not the one of the destination QP")                 \
    X(NoReceive, "no_receive", "no receive posted on a QP that cannot say so")                     \
    X(ReceiveTooSmall, "receive_too_small", "message is larger than the posted receive")           \
    X(PayloadLength, "payload_length", "payload length does not fit opcode and path MTU")          \
    X(OpcodeSequence, "opcode_sequence", "opcode does not continue the message")                   \
    X(PsnOutOfWindow, "psn_out_of_window", "PSN is of no outstanding or replayable request")       \
    X(AethSyndrome, "aeth_syndrome", "reserved AETH syndrome")                                     \
    X(NoHandler, "no_handler", "nobody on this port takes this packet or frame")                   \
    X(QueueFull, "queue_full", "internal queue towards the owner is full")

namespace rocemu::wire {

enum class DropReason : uint8_t {
#define ROCEMU_X(name, counter, help) name,
    ROCEMU_DROP_REASONS(ROCEMU_X)
#undef ROCEMU_X
};

struct DropReasonInfo {
    const char* name;  // counter name
    const char* help;
};

inline constexpr std::array kDropReasons{
#define ROCEMU_X(name, counter, help) DropReasonInfo{counter, help},
    ROCEMU_DROP_REASONS(ROCEMU_X)
#undef ROCEMU_X
};
inline constexpr size_t kDropReasonCount = kDropReasons.size();

[[nodiscard]] constexpr const char* name_of(DropReason reason) {
    return kDropReasons[static_cast<size_t>(reason)].name;
}

}  // namespace rocemu::wire
