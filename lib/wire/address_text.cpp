// SPDX-License-Identifier: BSD-3-Clause
// Text forms of MacAddress and Gid, for configuration, logs and the command line.
// Nothing here is on a data path; the functions allocate.
#include <arpa/inet.h>

#include <cstdio>

#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::wire {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

std::string to_string(const MacAddress& mac) {
    char text[18];
    std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    return text;
}

std::optional<MacAddress> parse_mac(std::string_view text) {
    MacAddress mac{};
    size_t pos = 0;
    for (size_t i = 0; i < mac.size(); ++i) {
        if (i > 0) {
            if (pos >= text.size() || (text[pos] != ':' && text[pos] != '-')) return std::nullopt;
            ++pos;
        }
        unsigned value = 0;
        size_t digits = 0;
        while (pos < text.size() && digits < 2 && hex_digit(text[pos]) >= 0) {
            value = value * 16 + static_cast<unsigned>(hex_digit(text[pos]));
            ++pos;
            ++digits;
        }
        if (digits == 0) return std::nullopt;
        mac[i] = static_cast<uint8_t>(value);
    }
    if (pos != text.size()) return std::nullopt;
    return mac;
}

std::string to_string(const Gid& gid) {
    std::string text;
    text.reserve(39);
    for (size_t i = 0; i < gid.raw.size(); i += 2) {
        char group[6];
        std::snprintf(group, sizeof group, "%s%02x%02x", i ? ":" : "", gid.raw[i], gid.raw[i + 1]);
        text += group;
    }
    return text;
}

std::optional<Gid> parse_gid(std::string_view text) {
    const std::string terminated(text);
    in_addr v4{};
    if (inet_pton(AF_INET, terminated.c_str(), &v4) == 1) return Gid::from_ipv4(ntohl(v4.s_addr));
    in6_addr v6{};
    if (inet_pton(AF_INET6, terminated.c_str(), &v6) != 1) return std::nullopt;
    return Gid::from_bytes(reinterpret_cast<const std::byte*>(&v6));
}

}  // namespace rocemu::wire
