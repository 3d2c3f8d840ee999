// SPDX-License-Identifier: BSD-3-Clause
// See cm_values.h.
#include "control/cm_values.h"

#include <algorithm>

#include "base/verbs_types.h"

namespace rocemu::control {
namespace {

// On a kernel interface loopback addresses are the host's own, as for Linux's devices: a program that looks for its
// address among those of the host must not take that one.
bool stands_for_loopback(const Device& device) {
    return device.netdev().empty();
}

bool owns(const Device& device, const wire::Gid& address) {
    return device.gids().find(address, net::RoceVersion::V2).has_value();
}

}  // namespace

std::optional<cm::Transport> transport_of(const CmIdObject& object) {
    switch (static_cast<QpType>(object.qp_type)) {
        case QpType::Ud:
            return std::nullopt;
        case QpType::Uc:
            return cm::Transport::Uc;
        case QpType::XrcSend:
        case QpType::XrcRecv:
            return cm::Transport::Xrc;
        default:
            return cm::Transport::Rc;
    }
}

std::optional<CmEndpoint> endpoint_of(const abi::CmAddress& a) {
    CmEndpoint e;
    if (a.family == 0) return e;
    std::copy(std::begin(a.address), std::end(a.address), e.address.raw.begin());
    if (a.family != 4 && a.family != 6) return std::nullopt;
    if (a.family == 4 && !e.address.is_ipv4_mapped()) return std::nullopt;
    e.scope_id = a.scope_id;
    e.port = a.port;
    e.set = true;
    return e;
}

abi::CmAddress address_of(const CmEndpoint& e) {
    abi::CmAddress a;
    if (!e.set) return a;
    std::copy(e.address.raw.begin(), e.address.raw.end(), a.address);
    a.scope_id = e.scope_id;
    a.port = e.port;
    a.family = e.address.is_ipv4_mapped() ? 4 : 6;
    return a;
}

abi::CmAddressHandle address_handle(const Device& device, const cm::Path& path) {
    abi::CmAddressHandle ah;
    const auto version = path.network == wire::NetworkType::RoceV1 ? net::RoceVersion::V1 : net::RoceVersion::V2;
    std::copy(path.remote_gid.raw.begin(), path.remote_gid.raw.end(), ah.dgid);
    ah.sgid_index = static_cast<uint8_t>(device.gids().find(path.local_gid, version).value_or(0));
    ah.flow_label = path.flow_label;
    ah.hop_limit = path.hop_limit;
    ah.traffic_class = path.traffic_class;
    ah.sl = path.sl;
    ah.is_global = 1;
    ah.port_num = 1;
    return ah;
}

bool is_wildcard(const wire::Gid& a) {
    return a.is_zero() || (a.is_ipv4_mapped() && a.ipv4() == 0);
}

bool is_loopback(const wire::Gid& a) {
    if (a.is_ipv4_mapped()) return a.ipv4() >> 24 == 127;
    wire::Gid one;
    one.raw[15] = 1;
    return a == one;
}

std::optional<uint32_t> device_of(const std::vector<std::unique_ptr<Device>>& devices, const wire::Gid& address) {
    for (const auto& device : devices)
        if (is_loopback(address) ? stands_for_loopback(*device) : owns(*device, address)) return device->id();
    return std::nullopt;
}

std::optional<Route> route_to(const std::vector<std::unique_ptr<Device>>& devices, const wire::Gid& destination,
                              std::optional<uint32_t> from) {
    if (is_loopback(destination)) {
        for (const auto& device : devices) {
            if ((from && device->id() != *from) || !stands_for_loopback(*device)) continue;
            for (const auto& address : device->gids().addresses())
                if (address.is_ipv4_mapped() == destination.is_ipv4_mapped())
                    return Route{device->id(), address, address};
        }
        return std::nullopt;
    }
    std::optional<Route> best;
    int best_rank = 0;
    for (const auto& device : devices) {
        if (from && device->id() != *from) continue;
        const auto source = device->source_for(destination);
        if (!source) continue;
        const bool own = owns(*device, destination);
        const int rank = own ? 2 : device->address_near(destination) ? 3 : 1;
        if (rank <= best_rank) continue;
        best_rank = rank;
        best = Route{device->id(), own ? destination : *source, destination};
    }
    return best;
}

}  // namespace rocemu::control
