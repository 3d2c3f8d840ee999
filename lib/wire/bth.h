// SPDX-License-Identifier: BSD-3-Clause
// Bth: the base transport header, in every RoCE packet. Read IBTA volume 1, 9.2, and annex A17.4 for FECN/BECN.
// Reserved bits are written as zero and ignored on reception (IBTA 9.2), so they are not kept here.
#pragma once

#include "base/bytes.h"

namespace rocemu::wire {

inline constexpr uint16_t kDefaultPkey = 0xffff;  // full member of the default partition

struct Bth {
    static constexpr size_t kSize = 12;

    uint8_t opcode = 0;
    bool solicited = false;
    bool mig_req = false;   // both values are accepted; we send 0 as Linux does
    uint8_t pad_count = 0;  // 0..3 bytes between payload and ICRC
    uint8_t tver = 0;       // transport header version: 0
    uint16_t pkey = kDefaultPkey;
    bool fecn = false;
    bool becn = false;
    uint32_t dest_qp = 0;  // 24 bits
    bool ack_req = false;
    uint32_t psn = 0;  // 24 bits

    // In place: g++ builds a returned struct byte by byte and then copies it wide, which stalls.
    void read(const std::byte* p) {
        const auto flags = load_be<uint8_t>(p + 1);
        const auto congestion = load_be<uint8_t>(p + 4);
        opcode = load_be<uint8_t>(p);
        solicited = flags & 0x80;
        mig_req = flags & 0x40;
        pad_count = (flags >> 4) & 3;
        tver = flags & 15;
        pkey = load_be<uint16_t>(p + 2);
        fecn = congestion & 0x80;
        becn = congestion & 0x40;
        dest_qp = load_be<uint32_t>(p + 4) & 0xffffff;
        ack_req = load_be<uint8_t>(p + 8) & 0x80;
        psn = load_be<uint32_t>(p + 8) & 0xffffff;
    }
    [[nodiscard]] static Bth parse(const std::byte* p) {
        Bth h;
        h.read(p);
        return h;
    }
    void write(std::byte* p) const { write(p, pad_count); }
    // With another pad count than the member's, which saves the builder a copy of the struct.
    void write(std::byte* p, uint8_t pad) const {
        store_be<uint8_t>(p, opcode);
        store_be<uint8_t>(
            p + 1, static_cast<uint8_t>((solicited ? 0x80 : 0) | (mig_req ? 0x40 : 0) | (pad & 3) << 4 | (tver & 15)));
        store_be<uint16_t>(p + 2, pkey);
        store_be<uint32_t>(p + 4, (fecn ? 0x8000'0000u : 0) | (becn ? 0x4000'0000u : 0) | (dest_qp & 0xffffff));
        store_be<uint32_t>(p + 8, (ack_req ? 0x8000'0000u : 0) | (psn & 0xffffff));
    }
};

}  // namespace rocemu::wire
