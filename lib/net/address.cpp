// SPDX-License-Identifier: BSD-3-Clause
// Assembly of an address vector; each refusal is one named reason.
#include "net/address.h"

#include "wire/udp.h"

namespace rocemu::net {
namespace {

// Linux takes the hop limit of connected QPs from the route, whatever the program asks for; its default is 64.
constexpr uint8_t kRouteHopLimit = 64;

}  // namespace

const char* text_of(AddressError error) {
    switch (error) {
        case AddressError::None:
            return "ok";
        case AddressError::NoGrh:
            return "ah_attr.is_global is not set: RoCE needs a GID (programs: give a GID index)";
        case AddressError::NoSuchSgid:
            return "ah_attr.grh.sgid_index is an empty entry of the GID table";
        case AddressError::FamilyDiffers:
            return "ah_attr.grh.dgid is of another address family than the SGID";
        case AddressError::BadDgid:
            return "ah_attr.grh.dgid is zero or a group";
        case AddressError::BadSl:
            return "ah_attr.sl is above 7";
    }
    return "unknown";
}

AddressError assemble(const GidTable& gids, const AddressRequest& request, wire::AddressVector& out) {
    if (!request.is_global) return AddressError::NoGrh;
    const GidEntry* source = gids.at(request.sgid_index);
    if (!source) return AddressError::NoSuchSgid;
    if (request.dgid.is_zero() || (request.connected && request.dgid.is_multicast())) return AddressError::BadDgid;
    if (source->gid.is_ipv4_mapped() != request.dgid.is_ipv4_mapped()) return AddressError::FamilyDiffers;
    if (request.sl > 7) return AddressError::BadSl;

    // A16, A17: the type of the source GID's entry decides how packets travel.
    out.network = source->version == RoceVersion::V1 ? wire::NetworkType::RoceV1
                  : source->gid.is_ipv4_mapped()     ? wire::NetworkType::V2Ipv4
                                                     : wire::NetworkType::V2Ipv6;
    // A16, A17: the priority of a tagged frame is the service level; an untagged one has no room for it.
    out.has_vlan = source->vlan != wire::kNoVlan;
    out.vlan_tci = out.has_vlan ? static_cast<uint16_t>(request.sl << 13 | source->vlan) : 0;
    out.src_gid = source->gid;
    out.dst_gid = request.dgid;
    out.traffic_class = request.traffic_class & 0xfc;
    out.hop_limit = request.connected || request.hop_limit == 0 ? kRouteHopLimit : request.hop_limit;
    out.flow_label = request.flow_label & 0xfffff;
    out.udp_source_port = wire::udp_source_port(request.flow_label, request.local_qpn, request.remote_qpn);
    return AddressError::None;
}

}  // namespace rocemu::net
