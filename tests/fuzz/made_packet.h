// SPDX-License-Identifier: BSD-3-Clause
// MadePacket: a packet for a QP, from a fuzzer's input: fields that are near to what is expected, mostly, so that it gets
// past the first check; or a recorded frame moved to where the QP is.
#pragma once

#include <array>
#include <optional>

#include "support/wire_frames.h"
#include "tests/fuzz/input.h"
#include "wire/parse.h"

namespace rocemu::fuzz {

// What the QP has that packets name.
struct Aim {
    uint32_t qpn = 0;
    uint32_t mtu = 1024;
    uint32_t expected = 0;  // the PSN that is probably next
    uint32_t qkey = 0, source_qpn = 0;
    uint64_t memory = 0;  // 64 KiB, and what lies behind them
    std::array<uint32_t, 6> keys{};  // good ones and bad ones
};

struct MadePacket {
    wire::Bth bth;
    wire::ExtHeaders ext;
    std::vector<std::byte> payload;

    static uint64_t address(Input& in, uint8_t flags, const Aim& aim) {
        return aim.memory + in.half() + (flags & 0x20 ? 0xfff0 : 0);
    }
    static uint32_t rkey(Input& in, const Aim& aim) { return aim.keys[in.byte() % aim.keys.size()]; }

    // A PSN near the expected one, a length that mostly fits.
    static MadePacket of_fields(Input& in, uint8_t opcode, uint8_t flags, const Aim& aim) {
        MadePacket p;
        p.bth.opcode = opcode;
        const auto ahead = static_cast<int8_t>(in.byte());
        p.bth.psn = (aim.expected + static_cast<uint32_t>(flags & 1 ? ahead / 32 : ahead)) & 0xffffff;
        p.bth.dest_qp = aim.qpn;
        p.bth.ack_req = flags & 2;
        p.bth.solicited = flags & 4;
        const auto& op = wire::opcode_info(opcode);
        uint32_t n = 0;
        if (op.has_payload) n = op.ends_message() || (flags & 8) ? in.half() % (aim.mtu + 2) : aim.mtu;
        p.ext.reth.va = address(in, flags, aim);
        p.ext.reth.rkey = rkey(in, aim);
        p.ext.reth.length = op.operation == wire::Operation::Write && op.position == wire::Position::Only
                                    ? n
                                    : uint32_t{in.half()} * (flags & 0x40 ? 65536 : 1);
        p.ext.atomic_eth = {p.ext.reth.va & ~uint64_t{flags & 8 ? 0u : 7u}, p.ext.reth.rkey, 1, 2};
        p.ext.deth = {flags & 0x10 ? in.byte() : aim.qkey, aim.source_qpn};
        p.ext.aeth = {flags & 0x10 ? in.byte() : uint8_t{0x1f}, in.byte()};
        p.payload.assign(n, std::byte{flags});
        return p;
    }

    // Its addresses land in the QP's memory, its key is the QP's. Nothing: no frame of this transport.
    static std::optional<MadePacket> of_recording(Input& in, wire::Transport transport, const Aim& aim) {
        const test::Frame frame = in.bytes(in.half());
        wire::PacketView v;
        if (!wire::parse_frame(frame, v).ok() || v.op->transport != transport) return std::nullopt;
        MadePacket p{v.bth, test::extensions_of(v), {v.payload.begin(), v.payload.end()}};
        p.bth.dest_qp = aim.qpn;
        p.ext.deth = {aim.qkey, aim.source_qpn};
        p.ext.reth.va = aim.memory + (p.ext.reth.va & 0x7ff8);
        p.ext.atomic_eth.va = aim.memory + (p.ext.atomic_eth.va & 0x7ff8);
        if (p.ext.reth.rkey != 0) p.ext.reth.rkey = aim.keys[0];
        p.ext.atomic_eth.rkey = aim.keys[0];
        return p;
    }
};

// Request opcodes of RC (UC's lie 0x20 above the first twelve), and its responses.
inline constexpr std::array<uint8_t, 19> kRequests{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19, 20, 22, 23, 28, 29};
inline constexpr std::array<uint8_t, 8> kResponses{13, 14, 15, 16, 17, 17, 17, 18};

inline uint8_t request_opcode(Input& in, wire::Transport transport) {
    const uint8_t rc = kRequests[in.byte() % kRequests.size()];
    if (transport == wire::Transport::Uc) return static_cast<uint8_t>(0x20 + rc % 12);
    if (transport == wire::Transport::Ud) return static_cast<uint8_t>(0x64 + rc % 2);
    return rc;
}

}  // namespace rocemu::fuzz
