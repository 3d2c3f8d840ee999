// SPDX-License-Identifier: BSD-3-Clause
// Gid: the 16-byte address of a port in wire order; the same bytes as an IPv6 address.
// Read IBTA volume 1, 4.1.1 and annex A17.3.2: in RoCE v2 an IPv4 address a.b.c.d is the GID ::ffff:a.b.c.d.
// The text helpers allocate and are for configuration and logs, never for the data path.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace rocemu::wire {

struct Gid {
    std::array<uint8_t, 16> raw{};

    // As two words: a comparison of sixteen bytes is a call.
    constexpr bool operator==(const Gid& other) const {
        const auto a = std::bit_cast<std::array<uint64_t, 2>>(raw), b = std::bit_cast<std::array<uint64_t, 2>>(other.raw);
        return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
    }

    [[nodiscard]] static Gid from_bytes(const std::byte* p) {
        Gid g;
        std::memcpy(g.raw.data(), p, g.raw.size());
        return g;
    }
    // Made of two words: sixteen byte stores followed by a wide load would stall the parse.
    [[nodiscard]] static constexpr Gid from_ipv4(uint32_t host_order) {
        const uint64_t last = kMappedPrefix | uint64_t{__builtin_bswap32(host_order)} << 32;
        return {std::bit_cast<std::array<uint8_t, 16>>(std::array<uint64_t, 2>{0, last})};
    }
    void write(std::byte* p) const { std::memcpy(p, raw.data(), raw.size()); }

    [[nodiscard]] constexpr bool is_ipv4_mapped() const {
        const auto words = std::bit_cast<std::array<uint64_t, 2>>(raw);
        return words[0] == 0 && (words[1] & 0xffffffff) == kMappedPrefix;
    }
    // Host order; meaningful only when is_ipv4_mapped().
    [[nodiscard]] constexpr uint32_t ipv4() const {
        return uint32_t{raw[12]} << 24 | uint32_t{raw[13]} << 16 | uint32_t{raw[14]} << 8 | raw[15];
    }
    [[nodiscard]] constexpr bool is_zero() const { return *this == Gid{}; }
    [[nodiscard]] constexpr bool is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }
    // IPv6 group ff00::/8, or an IPv4 group 224.0.0.0/4 in its mapped form.
    [[nodiscard]] constexpr bool is_multicast() const {
        return raw[0] == 0xff || (is_ipv4_mapped() && (raw[12] & 0xf0) == 0xe0);
    }

  private:
    static constexpr uint64_t kMappedPrefix = 0xffff0000;  // bytes 8..11 are 00 00 ff ff, read little-endian
};

// Eight groups of four hexadecimal digits, as ibv_devinfo -v and sysfs print it.
[[nodiscard]] std::string to_string(const Gid& gid);
// An IPv6 address in any text form, or a dotted IPv4 address (which becomes ::ffff:a.b.c.d); else nullopt.
[[nodiscard]] std::optional<Gid> parse_gid(std::string_view text);

}  // namespace rocemu::wire
