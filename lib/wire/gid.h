// SPDX-License-Identifier: BSD-3-Clause
// Gid: the 16-byte address of a port in wire order; the same bytes as an IPv6 address.
// Read IBTA volume 1, 4.1.1 and annex A17.3.2: in RoCE v2 an IPv4 address a.b.c.d is the GID ::ffff:a.b.c.d.
// The text helpers allocate and are for configuration and logs, never for the data path.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace rocemu::wire {

struct Gid {
    std::array<uint8_t, 16> raw{};

    bool operator==(const Gid&) const = default;

    [[nodiscard]] static Gid from_bytes(const std::byte* p) {
        Gid g;
        std::memcpy(g.raw.data(), p, g.raw.size());
        return g;
    }
    [[nodiscard]] static constexpr Gid from_ipv4(uint32_t host_order) {
        Gid g;
        g.raw[10] = g.raw[11] = 0xff;
        for (int i = 0; i < 4; ++i) g.raw[12 + i] = static_cast<uint8_t>(host_order >> (24 - 8 * i));
        return g;
    }
    void write(std::byte* p) const { std::memcpy(p, raw.data(), raw.size()); }

    [[nodiscard]] constexpr bool is_ipv4_mapped() const {
        for (int i = 0; i < 10; ++i)
            if (raw[i] != 0) return false;
        return raw[10] == 0xff && raw[11] == 0xff;
    }
    // Host order; meaningful only when is_ipv4_mapped().
    [[nodiscard]] constexpr uint32_t ipv4() const {
        return uint32_t{raw[12]} << 24 | uint32_t{raw[13]} << 16 | uint32_t{raw[14]} << 8 | raw[15];
    }
    [[nodiscard]] constexpr bool is_zero() const {
        return std::all_of(raw.begin(), raw.end(), [](uint8_t b) { return b == 0; });
    }
    [[nodiscard]] constexpr bool is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }
    // IPv6 group ff00::/8, or an IPv4 group 224.0.0.0/4 in its mapped form.
    [[nodiscard]] constexpr bool is_multicast() const {
        return raw[0] == 0xff || (is_ipv4_mapped() && (raw[12] & 0xf0) == 0xe0);
    }
};

// Eight groups of four hexadecimal digits, as ibv_devinfo -v and sysfs print it.
[[nodiscard]] std::string to_string(const Gid& gid);
// An IPv6 address in any text form, or a dotted IPv4 address (which becomes ::ffff:a.b.c.d); else nullopt.
[[nodiscard]] std::optional<Gid> parse_gid(std::string_view text);

}  // namespace rocemu::wire
