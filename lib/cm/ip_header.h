// SPDX-License-Identifier: BSD-3-Clause
// IpHeader: the first 36 bytes of the private data of a REQ or SIDR_REQ of the RDMA IP CM service, which tell the
// passive side who is calling in terms of IP. Read IBTA annex A11.3. An IPv4 address stands in the last four of its
// 16 bytes, the others are zero (not the ::ffff: form of a GID).
#pragma once

#include <optional>
#include <span>

#include "base/bytes.h"
#include "wire/gid.h"

namespace rocemu::cm {

enum class IpVersion : uint8_t { V4 = 4, V6 = 6 };

struct IpHeader {
    static constexpr size_t kSize = 36;
    static constexpr uint8_t kVersion = 0;  // major 0, minor 0

    IpVersion ip_version = IpVersion::V4;
    uint16_t source_port = 0;  // host order
    wire::Gid source{};        // IPv4 as ::ffff:a.b.c.d, as everywhere else in this tree
    wire::Gid destination{};

    // nullopt: a version this service does not know (A11: answered with a REJ), or neither IPv4 nor IPv6.
    [[nodiscard]] static std::optional<IpHeader> parse(std::span<const std::byte> private_data);
    // Precondition: to.size() >= kSize.
    void write(std::span<std::byte> to) const;
    bool operator==(const IpHeader&) const = default;
};

[[nodiscard]] constexpr IpVersion ip_version_of(const wire::Gid& address) {
    return address.is_ipv4_mapped() ? IpVersion::V4 : IpVersion::V6;
}

}  // namespace rocemu::cm
