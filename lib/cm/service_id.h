// SPDX-License-Identifier: BSD-3-Clause
// Service ids of the RDMA IP CM service. Read IBTA annex A11.2: 0x0000000001PPNNNN, PP an IP protocol number and NNNN
// a port. librdmacm's port spaces are wider than PP: 0x0106 TCP, 0x0111 UDP, 0x013f IB, so that the service id is
// simply (port space << 16) | port.
#pragma once

#include <cstdint>
#include <optional>

namespace rocemu::cm {

// Numbers of enum rdma_port_space in <rdma/rdma_cma.h>.
enum class PortSpace : uint16_t { Tcp = 0x0106, Udp = 0x0111, Ib = 0x013f };

struct IpService {
    PortSpace port_space = PortSpace::Tcp;
    uint16_t port = 0;  // host order

    bool operator==(const IpService&) const = default;
};

[[nodiscard]] constexpr uint64_t service_id_of(IpService service) {
    return uint64_t{static_cast<uint16_t>(service.port_space)} << 16 | service.port;
}

// nullopt: not a service id of the IP CM service, or a port space that does not exist here.
[[nodiscard]] constexpr std::optional<IpService> ip_service_of(uint64_t service_id) {
    const uint64_t space = service_id >> 16;
    for (const auto known : {PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib})
        if (space == static_cast<uint16_t>(known)) return IpService{known, static_cast<uint16_t>(service_id)};
    return std::nullopt;
}

}  // namespace rocemu::cm
