// SPDX-License-Identifier: BSD-3-Clause
// Mad: the 256-byte management datagram of the communication manager and its common header.
// Read IBTA volume 1, 13.4.2 (MAD format), 12.6 (CM messages) and 16.7.1 (class and attribute numbers).
// One file per message (req.h, rep.h, ...): each is a plain struct with parse and write, which read and fill the 232
// bytes behind the header, reserved bits as zero.
#pragma once

#include <array>

#include "base/bytes.h"

namespace rocemu::cm {

inline constexpr size_t kMadSize = 256;
using Mad = std::array<std::byte, kMadSize>;

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;  // IBTA 13.5.3: the well-known Q_Key of QP1

enum class Attribute : uint16_t {
    Req = 0x0010,
    Mra = 0x0011,
    Rej = 0x0012,
    Rep = 0x0013,
    Rtu = 0x0014,
    Dreq = 0x0015,
    Drep = 0x0016,
    SidrReq = 0x0017,
    SidrRep = 0x0018,
    Lap = 0x0019,
    Apr = 0x001a,
};

struct MadHeader {
    static constexpr size_t kSize = 24;
    static constexpr uint8_t kBaseVersion = 1, kClassCm = 0x07, kClassVersion = 2, kMethodSend = 0x03;

    uint8_t base_version = kBaseVersion;
    uint8_t mgmt_class = kClassCm;
    uint8_t class_version = kClassVersion;
    uint8_t method = kMethodSend;
    uint16_t status = 0;
    uint16_t class_specific = 0;
    uint64_t transaction_id = 0;
    uint16_t attribute_id = 0;
    uint32_t attribute_modifier = 0;

    [[nodiscard]] static MadHeader parse(const Mad& mad) {
        const std::byte* p = mad.data();
        return {static_cast<uint8_t>(p[0]), static_cast<uint8_t>(p[1]), static_cast<uint8_t>(p[2]),
                static_cast<uint8_t>(p[3]), load_be<uint16_t>(p + 4),   load_be<uint16_t>(p + 6),
                load_be<uint64_t>(p + 8),   load_be<uint16_t>(p + 16),  load_be<uint32_t>(p + 20)};
    }
    void write(Mad& mad) const {
        std::byte* p = mad.data();
        p[0] = std::byte{base_version};
        p[1] = std::byte{mgmt_class};
        p[2] = std::byte{class_version};
        p[3] = std::byte{method};
        store_be<uint16_t>(p + 4, status);
        store_be<uint16_t>(p + 6, class_specific);
        store_be<uint64_t>(p + 8, transaction_id);
        store_be<uint16_t>(p + 16, attribute_id);
        store_be<uint16_t>(p + 18, 0);
        store_be<uint32_t>(p + 20, attribute_modifier);
    }
};

// The bytes of a message behind the header.
[[nodiscard]] inline const std::byte* body_of(const Mad& mad) {
    return mad.data() + MadHeader::kSize;
}
[[nodiscard]] inline std::byte* body_of(Mad& mad) {
    return mad.data() + MadHeader::kSize;
}

// A whole MAD around one message.
template <typename Message>
[[nodiscard]] Mad make_mad(uint64_t transaction_id, const Message& message) {
    Mad mad{};
    MadHeader header;
    header.transaction_id = transaction_id;
    header.attribute_id = static_cast<uint16_t>(Message::kAttribute);
    header.write(mad);
    message.write(mad);
    return mad;
}

[[nodiscard]] inline Attribute attribute_of(const Mad& mad) {
    return static_cast<Attribute>(load_be<uint16_t>(mad.data() + 16));
}

// Bit fields of one byte: `width` bits from `shift`, counted from the low end.
[[nodiscard]] constexpr uint8_t bits(std::byte b, unsigned shift, unsigned width) {
    return static_cast<uint8_t>((static_cast<unsigned>(b) >> shift) & ((1u << width) - 1));
}
[[nodiscard]] constexpr std::byte field(unsigned value, unsigned shift, unsigned width) {
    return static_cast<std::byte>((value & ((1u << width) - 1)) << shift);
}

}  // namespace rocemu::cm
