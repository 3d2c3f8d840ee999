// SPDX-License-Identifier: BSD-3-Clause
// MacAddress: the six bytes of an Ethernet address in wire order, with its text form (aa:bb:cc:dd:ee:ff).
// The text helpers allocate and are for configuration and logs, never for the data path.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocemu::wire {

using MacAddress = std::array<uint8_t, 6>;

inline constexpr MacAddress kBroadcastMac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// IEEE 802: bit 0 of the first byte marks a group address (broadcast included).
[[nodiscard]] constexpr bool is_multicast(const MacAddress& mac) {
    return mac[0] & 1;
}

[[nodiscard]] std::string to_string(const MacAddress& mac);
// Six groups of one or two hexadecimal digits separated by ':' or '-'; anything else is nullopt.
[[nodiscard]] std::optional<MacAddress> parse_mac(std::string_view text);

}  // namespace rocemu::wire
