// SPDX-License-Identifier: BSD-3-Clause
// MacAddress: the six bytes of an Ethernet address in wire order, with its text form (aa:bb:cc:dd:ee:ff).
// The text helpers allocate and are for configuration and logs, never for the data path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace rocemu::wire {

using MacAddress = std::array<uint8_t, 6>;

inline constexpr MacAddress kBroadcastMac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// Six bytes from `p` on as one number, for comparisons on the data path: one of arrays is a call.
[[nodiscard]] inline uint64_t mac_number(const void* p) {
    uint32_t first;
    uint16_t last;
    std::memcpy(&first, p, sizeof first);
    std::memcpy(&last, static_cast<const std::byte*>(p) + sizeof first, sizeof last);
    return first | uint64_t{last} << 32;
}
[[nodiscard]] inline bool same_mac(const std::byte* p, const MacAddress& mac) {
    return mac_number(p) == mac_number(mac.data());
}

// IEEE 802: bit 0 of the first byte marks a group address (broadcast included).
[[nodiscard]] constexpr bool is_multicast(const MacAddress& mac) {
    return mac[0] & 1;
}

[[nodiscard]] std::string to_string(const MacAddress& mac);
// Six groups of one or two hexadecimal digits separated by ':' or '-'; anything else is nullopt.
[[nodiscard]] std::optional<MacAddress> parse_mac(std::string_view text);

}  // namespace rocemu::wire
