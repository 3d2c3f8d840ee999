// SPDX-License-Identifier: BSD-3-Clause
// Aeth: acknowledge extended transport header: a syndrome and the message sequence number of the responder.
// Read IBTA volume 1, 9.3.5 (format), 9.7.5.1.2 (syndromes), 9.7.7.2 (end-to-end credits).
//
// Syndrome: bit 7 zero; bits 6:5 choose ACK, RNR NAK or NAK; bits 4:0 carry credits, RNR timer or NAK code.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "base/bytes.h"

namespace rocemu::wire {

enum class AethKind : uint8_t { Ack = 0, RnrNak = 1, Reserved = 2, Nak = 3 };

enum class NakCode : uint8_t {
    PsnSequenceError = 0,
    InvalidRequest = 1,
    RemoteAccessError = 2,
    RemoteOperationalError = 3,
    InvalidRdRequest = 4,
};

inline constexpr uint8_t kNoCredits = 31;  // the credit field carries no information; what QPs on an SRQ send

struct Aeth {
    static constexpr size_t kSize = 4;

    uint8_t syndrome = 0;
    uint32_t msn = 0;  // 24 bits

    [[nodiscard]] static constexpr Aeth ack(uint32_t msn, uint8_t credit_code = kNoCredits) {
        return {static_cast<uint8_t>(credit_code & 31), msn};
    }
    [[nodiscard]] static constexpr Aeth rnr_nak(uint32_t msn, uint8_t timer_code) {
        return {static_cast<uint8_t>(0x20 | (timer_code & 31)), msn};
    }
    [[nodiscard]] static constexpr Aeth nak(uint32_t msn, NakCode code) {
        return {static_cast<uint8_t>(0x60 | static_cast<uint8_t>(code)), msn};
    }

    // IBTA 9.7.5.1.2: bit 7 is reserved and must be zero; a set bit makes the syndrome a reserved one.
    [[nodiscard]] constexpr AethKind kind() const {
        return syndrome & 0x80 ? AethKind::Reserved : static_cast<AethKind>(syndrome >> 5);
    }
    [[nodiscard]] constexpr uint8_t value() const { return syndrome & 31; }
    // Each of these is meaningful only for its kind().
    [[nodiscard]] constexpr uint8_t credit_code() const { return value(); }
    [[nodiscard]] constexpr uint8_t rnr_timer_code() const { return value(); }
    [[nodiscard]] constexpr NakCode nak_code() const { return static_cast<NakCode>(value()); }  // 5..31 are reserved

    [[nodiscard]] static Aeth parse(const std::byte* p) { return {load_be<uint8_t>(p), load_be24(p + 1)}; }
    void write(std::byte* p) const { store_be<uint32_t>(p, uint32_t{syndrome} << 24 | (msn & 0xffffff)); }
};

// IBTA table 9.7.7.2: receives promised by credit codes 0..30: 0, 1, 2, 3, then alternately 2^n and 3*2^(n-1).
[[nodiscard]] constexpr uint32_t credits_of_code(uint8_t code) {
    if (code < 4) return code;
    return code & 1 ? 3u << (code / 2 - 1) : 1u << (code / 2);
}
// The largest code (0..30) that promises no more than `receives`.
[[nodiscard]] constexpr uint8_t code_of_credits(uint32_t receives) {
    if (receives < 4) return static_cast<uint8_t>(receives);
    const auto power = static_cast<uint32_t>(std::bit_width(receives)) - 1;
    return static_cast<uint8_t>(std::min(2 * power + (receives >= 3u << (power - 1) ? 1 : 0), 30u));
}

}  // namespace rocemu::wire
