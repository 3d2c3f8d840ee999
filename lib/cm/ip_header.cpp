// SPDX-License-Identifier: BSD-3-Clause
// Layout of the IP CM private data header. Read IBTA annex A11.3.
#include "cm/ip_header.h"

namespace rocemu::cm {

namespace {

wire::Gid read_address(const std::byte* p, IpVersion version) {
    return version == IpVersion::V4 ? wire::Gid::from_ipv4(load_be<uint32_t>(p + 12)) : wire::Gid::from_bytes(p);
}

void write_address(std::byte* p, const wire::Gid& address, IpVersion version) {
    if (version == IpVersion::V6) return address.write(p);
    std::memset(p, 0, 12);
    store_be<uint32_t>(p + 12, address.ipv4());
}

}  // namespace

std::optional<IpHeader> IpHeader::parse(std::span<const std::byte> data) {
    if (data.size() < kSize || data[0] != std::byte{kVersion}) return std::nullopt;
    const auto version = static_cast<uint8_t>(data[1]) >> 4;
    if (version != 4 && version != 6) return std::nullopt;
    IpHeader h;
    h.ip_version = static_cast<IpVersion>(version);
    h.source_port = load_be<uint16_t>(data.data() + 2);
    h.source = read_address(data.data() + 4, h.ip_version);
    h.destination = read_address(data.data() + 20, h.ip_version);
    return h;
}

void IpHeader::write(std::span<std::byte> to) const {
    to[0] = std::byte{kVersion};
    to[1] = static_cast<std::byte>(static_cast<uint8_t>(ip_version) << 4);
    store_be<uint16_t>(to.data() + 2, source_port);
    write_address(to.data() + 4, source, ip_version);
    write_address(to.data() + 20, destination, ip_version);
}

}  // namespace rocemu::cm
