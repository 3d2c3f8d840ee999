// SPDX-License-Identifier: BSD-3-Clause
// Between the values of the border (abi/cm_messages.h) and those of control: addresses, address handles, numbers of
// events. Which device an address belongs to, and by which device a peer is reached.
#pragma once

#include <optional>
#include <vector>

#include "control/cm_objects.h"
#include "control/device.h"

namespace rocemu::control {

// enum rdma_cm_event_type
namespace cm_event {
inline constexpr uint32_t kAddressResolved = 0, kAddressError = 1, kRouteResolved = 2, kConnectRequest = 4,
                          kConnectResponse = 5, kConnectError = 6, kUnreachable = 7, kRejected = 8, kEstablished = 9,
                          kDisconnected = 10, kMulticastJoin = 12, kTimewaitExit = 15;
}  // namespace cm_event

// Of the QPs that an id is for; nullopt: datagrams.
[[nodiscard]] std::optional<cm::Transport> transport_of(const CmIdObject& object);

inline constexpr uint32_t kUdpQkey = 0x01234567;  // RDMA_UDP_QKEY of <rdma/rdma_cma.h>

// nullopt: a family that does not exist. An unset endpoint for family 0.
[[nodiscard]] std::optional<CmEndpoint> endpoint_of(const abi::CmAddress& address);
[[nodiscard]] abi::CmAddress address_of(const CmEndpoint& endpoint);
[[nodiscard]] abi::CmAddressHandle address_handle(const Device& device, const cm::Path& path);

[[nodiscard]] bool is_wildcard(const wire::Gid& address);  // ::, 0.0.0.0
[[nodiscard]] bool is_loopback(const wire::Gid& address);  // ::1, 127.0.0.0/8

// The device that has the address, or nullopt. Loopback addresses belong to the first device without a kernel interface.
[[nodiscard]] std::optional<uint32_t> device_of(const std::vector<std::unique_ptr<Device>>& devices,
                                                const wire::Gid& address);

struct Route {
    uint32_t device = 0;
    wire::Gid source{};       // of the device, in the family of the destination
    wire::Gid destination{};  // on the wire: for a loopback address, the device's own
};
// The way to a peer, from a given device if there is one. nullopt: no device has an address of that family.
// The devices of a fabric are the NICs of several machines on one wire: a peer that is one of them is reached from
// another one in its subnet if there is such a one. With one device only, from itself.
[[nodiscard]] std::optional<Route> route_to(const std::vector<std::unique_ptr<Device>>& devices,
                                            const wire::Gid& destination, std::optional<uint32_t> device);

}  // namespace rocemu::control
