// SPDX-License-Identifier: BSD-3-Clause
// See neighbour_rx.h.
#include "engine/neighbour_rx.h"

#include <algorithm>
#include <cstring>

#include "engine/device.h"
#include "net/arp.h"
#include "net/neighbour_discovery.h"
#include "net/small_frame.h"

namespace rocemu::engine {

namespace {

void tell(Device& device, const wire::Gid& gid, const wire::MacAddress& mac, Notifier& notifier) {
    if (mac == device.mac && device.find(gid) == nullptr) return;  // our own interface's kernel
    ShardEvent event;
    event.kind = ShardEventKind::Neighbour;
    event.object = device.setup.id;
    std::copy(gid.raw.begin(), gid.raw.end(), event.address.begin());
    std::copy(mac.begin(), mac.end(), event.mac.begin());
    notifier.post(event);  // full: the neighbour will be asked again
}

// Small frames outside of any QP; lost when the port is backed up, as the protocols allow.
void send(Device& device, std::span<const std::byte> untagged, uint16_t vlan) {
    if (!device.tx_room(1) || !device.cache.reserve(1)) return;
    const net::SmallFrame small(untagged, vlan);
    const auto bytes = small.bytes();
    Frame frame = device.cache.take();
    std::memcpy(frame.data, bytes.data(), bytes.size());
    frame.length = static_cast<uint32_t>(bytes.size());
    device.send(frame);
}

// Whether the question for `ours`, which came on this VLAN, is ours to answer.
bool answers(const LocalAddress* ours, uint16_t vlan) {
    return ours != nullptr && ours->answer_arp && ours->vlan == vlan;
}

void handle_arp(Device& device, std::span<const std::byte> body, uint16_t vlan, Notifier& notifier) {
    const auto arp = net::ArpPacket::parse(body);
    if (!arp) return;
    if (arp->tells_sender()) tell(device, wire::Gid::from_ipv4(arp->sender_ip), arp->sender_mac, notifier);
    if (arp->operation != net::ArpOperation::Request) return;
    const LocalAddress* ours = device.find(wire::Gid::from_ipv4(arp->target_ip));
    if (answers(ours, vlan)) send(device, net::arp_reply(device.mac, *arp), vlan);
}

void handle_nd(Device& device, const net::NdMessage& nd, uint16_t vlan, Notifier& notifier) {
    if (nd.link_address) {
        const wire::Gid& whose = nd.solicitation ? nd.source : nd.target;
        if (!whose.is_zero()) tell(device, whose, *nd.link_address, notifier);
    }
    if (!nd.solicitation) return;
    const LocalAddress* ours = device.find(nd.target);
    if (answers(ours, vlan)) send(device, net::neighbour_advertisement(device.mac, nd), vlan);
}

}  // namespace

bool handle_neighbour_frame(Device& device, std::span<const std::byte> frame, Notifier& notifier) {
    if (frame.size() < wire::EthHeader::kSize) return false;
    auto eth = wire::EthHeader::parse(frame.data());
    auto body = frame.subspan(wire::EthHeader::kSize);
    uint16_t vlan = wire::kNoVlan;
    if (eth.ether_type == wire::kEtherTypeVlan) {
        if (body.size() < wire::VlanTag::kSize) return false;
        const auto tag = wire::VlanTag::parse(body.data());
        eth.ether_type = tag.ether_type;
        if (tag.vid() != 0) vlan = tag.vid();
        body = body.subspan(wire::VlanTag::kSize);
    }
    if (eth.ether_type == wire::kEtherTypeArp) {
        handle_arp(device, body, vlan, notifier);
        return true;
    }
    if (eth.ether_type != wire::kEtherTypeIpv6) return false;
    const auto nd = net::NdMessage::parse(body, eth);
    if (!nd) return false;
    handle_nd(device, *nd, vlan, notifier);
    return true;
}

}  // namespace rocemu::engine
