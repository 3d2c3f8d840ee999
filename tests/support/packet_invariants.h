// SPDX-License-Identifier: BSD-3-Clause
// What must be true of every PacketView that parse_frame accepted, whatever the frame was. Used by the mutation test
// and the fuzz target. Everything that the view points to is read, so that a sanitizer sees a bad span.
#pragma once

#include "support/wire_frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"

namespace rocemu::test {

inline bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

inline bool holds_together(const wire::PacketView& p, std::span<const std::byte> frame) {
    if (!p.op || !p.op->valid()) return false;
    if (!is_inside(p.l3, frame) || !is_inside(p.payload, p.l3) || !is_inside(p.headers(), p.l3)) return false;
    if (p.l3.data() + p.l3.size() + wire::kIcrcSize > frame.data() + frame.size()) return false;
    if (p.headers().size() + p.payload.size() + p.pad_count() != p.l3.size()) return false;
    if (p.headers().data() + p.headers().size() != p.payload.data()) return false;
    if (!p.op->has_payload && !p.payload.empty()) return false;
    if (p.bth.tver != 0 || p.bth.dest_qp == 0 || (p.bth.pkey & 0x7fff) != 0x7fff) return false;

    // The ICRC in one piece and in parts.
    const size_t rest = p.l3.size() - p.headers().size();
    Frame copied(rest);
    const uint32_t state = wire::icrc_header_part(p.headers(), p.network);
    const uint32_t in_parts = wire::icrc_finish(wire::crc32_copy(state, copied.data(), p.payload.data(), rest));
    if (in_parts != wire::icrc_of_packet(p.l3, p.network)) return false;

    // Building it anew gives a packet with the same meaning (minimal padding, right checksums).
    const Frame again = rebuild(p);
    wire::PacketView second;
    return wire::parse_frame(again, second).ok() && wire::icrc_matches(second) && second.bth.opcode == p.bth.opcode &&
           second.bth.psn == p.bth.psn && second.bth.dest_qp == p.bth.dest_qp && second.src_gid == p.src_gid &&
           std::equal(p.payload.begin(), p.payload.end(), second.payload.begin(), second.payload.end());
}

}  // namespace rocemu::test
