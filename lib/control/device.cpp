// SPDX-License-Identifier: BSD-3-Clause
// Device: see device.h. Addresses in ConnectX order: the link-local GID made from the MAC address always exists.
#include "control/device.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "config/config.h"
#include "control/log.h"
#include "net/eui64.h"
#include "net/iboe_mtu.h"

namespace rocemu::control {

Device::Device(uint32_t id, const DeviceInit& init)
    : id_(id), name_(init.name), port_(init.port), netdev_(init.netdev), cm_roce_v1_(init.cm_roce_v1),
      fabric_nic_(init.fabric_nic), link_(init.netdev.empty() ? init.link : nullptr), raw_packets_(init.raw_packets) {
    std::copy(std::begin(init.info.mac), std::end(init.info.mac), mac_.begin());
    node_guid_ = net::guid_of(mac_);
    mtu_ = init.info.mtu;
    link_up_ = init.info.link_up;
    speed_mbps_ = init.info.speed_mbps;

    std::vector<wire::Gid> untagged{net::link_local_gid(mac_)};
    for (const auto& text : init.addresses) {
        std::string address;
        int prefix = 0;
        if (!config::split_address(text, address, prefix))
            throw std::runtime_error(name_ + ": '" + text + "' is not an address with prefix length");
        const auto gid = wire::parse_gid(address);
        if (!gid) continue;
        const size_t at = text.find('@');
        const auto vlan = at == text.npos ? wire::kNoVlan : static_cast<uint16_t>(std::stoi(text.substr(at + 1)));
        if (vlan == wire::kNoVlan) untagged.push_back(*gid);
        configured_.push_back({*gid, static_cast<unsigned>(prefix) + (gid->is_ipv4_mapped() ? 96u : 0u), vlan});
    }
    follow_addresses_ = untagged.size() == 1;
    bool all = gids_.add(untagged);
    for (const auto& own : configured_)
        if (own.vlan != wire::kNoVlan) all &= gids_.add({&own.gid, 1}, own.vlan);
    // Each has two entries, and so has the link-local one.
    if (!all)
        throw std::runtime_error(name_ + ": more than " + std::to_string(gids_.capacity() / 2 - 1) +
                                 " addresses: the GID table has no place for them");

    if (init.mtu != 0) mtu_ = mtu_ == 0 ? init.mtu : std::min(mtu_, init.mtu);
    mtu_limit_ = mtu_;
    if (!netdev_.empty()) {
        const auto interface = read_interface(netdev_);
        if (!interface) throw std::runtime_error(name_ + ": there is no kernel interface '" + netdev_ + "'");
        ifindex_ = interface->index;
        follow(*interface);
    }
    if (net::iboe_mtu(mtu_) == 0)
        throw std::runtime_error(name_ + ": an MTU of " + std::to_string(mtu_) + " bytes is too small for RoCE");
}

Device::Changes Device::follow(const InterfaceInfo& interface) {
    Changes changes;
    netdev_ = interface.name;  // it may be renamed
    // A port's own limit stays one: its frames are no larger. An MTU too small for RoCE is not followed.
    const uint32_t mtu = mtu_limit_ == 0 ? interface.mtu : std::min(mtu_limit_, interface.mtu);
    if (mtu != mtu_ && net::iboe_mtu(mtu) != 0) {
        mtu_ = mtu;
        changes.mtu = true;
    }
    changes.link = link_up_ != interface.running;
    link_up_ = interface.running;
    if (interface.speed_mbps != 0) speed_mbps_ = interface.speed_mbps;
    changes.mac = take_mac(interface.mac);
    changes.gids = changes.mac;
    if (follow_addresses_) {
        changes.gids |= take_addresses(interface.addresses, changes.mac);
        vlans_ = interface.vlans;
    }
    std::vector<uint32_t> interfaces{ifindex_};
    for (const auto& vlan : vlans_) interfaces.push_back(vlan.index);
    memberships_.use(std::move(interfaces));
    return changes;
}

bool Device::take_mac(const wire::MacAddress& mac) {
    if (mac == mac_ || mac == wire::MacAddress{}) return false;
    gids_.remove(net::link_local_gid(mac));  // one that the kernel still had from an earlier time
    gids_.rename(net::link_local_gid(mac_), net::link_local_gid(mac));
    mac_ = mac;
    return true;
}

Device::Changes Device::lost_interface() {
    Changes changes;
    changes.link = link_up_;
    link_up_ = false;
    lost_ = true;
    return changes;
}

Device::Changes Device::look_at_link() {
    Changes changes;
    if (link_ == nullptr) return changes;
    const engine::PortInfo now = link_->info();
    changes.link = link_up_ != now.link_up;
    link_up_ = now.link_up;
    if (now.speed_mbps != 0) speed_mbps_ = now.speed_mbps;
    return changes;
}

// The difference to what was there before; addresses that stay keep their indices. `renamed`: our link-local address was
// made anew. The kernel's, which was made from the MAC address before, is the kernel's for as long as it is up.
bool Device::take_addresses(const std::vector<InterfaceAddress>& addresses, bool renamed) {
    if (addresses == followed_ && !renamed) return false;
    bool changed = false;
    const wire::Gid own = net::link_local_gid(mac_);
    const auto stays = [&](const InterfaceAddress& old) {
        return std::any_of(addresses.begin(), addresses.end(),
                           [&](const auto& a) { return a.gid == old.gid && a.vlan == old.vlan; });
    };
    for (const auto& old : followed_)
        if (!stays(old) && old.gid != own) changed |= gids_.remove(old.gid);
    std::map<uint16_t, std::vector<wire::Gid>> fresh;
    for (const auto& a : addresses)
        if (!gids_.find(a.gid, net::RoceVersion::V2)) fresh[a.vlan].push_back(a.gid);
    // Those of no VLAN first.
    for (auto it = fresh.rbegin(); it != fresh.rend(); ++it) {
        if (!gids_.add(it->second, it->first))
            log::warn("{}: {} has more addresses than the GID table has places: some are left out", name_, netdev_);
        changed |= gids_.find(it->second.front(), net::RoceVersion::V2).has_value();
    }
    followed_ = addresses;
    return changed;
}

uint8_t Device::active_mtu() const {
    return net::iboe_mtu(mtu_);
}

std::optional<wire::Gid> Device::address_near(const wire::Gid& address) const {
    const auto near = [&](const InterfaceAddress& own) {
        unsigned bit = 0;
        const auto differs = [&](unsigned b) {
            return ((own.gid.raw[b / 8] ^ address.raw[b / 8]) & (0x80u >> b % 8)) != 0;
        };
        while (bit < own.prefix && bit < 128 && !differs(bit)) ++bit;
        return bit >= own.prefix;
    };
    for (const auto* list : {&configured_, &followed_})
        if (const auto own = std::find_if(list->begin(), list->end(), near); own != list->end()) return own->gid;
    return std::nullopt;
}

std::optional<wire::Gid> Device::source_for(const wire::Gid& address) const {
    if (const auto near = address_near(address)) return near;
    for (const auto& own : gids_.addresses())
        if (own.is_ipv4_mapped() == address.is_ipv4_mapped() && own.is_link_local() == address.is_link_local())
            return own;
    return std::nullopt;
}

uint16_t Device::vlan_of(const wire::Gid& address) const {
    const auto index = gids_.find(address, net::RoceVersion::V2);
    return index ? gids_.at(*index)->vlan : wire::kNoVlan;
}

Device::Netdev Device::netdev_of(const net::GidEntry& entry) const {
    if (entry.vlan == wire::kNoVlan) return {netdev_, ifindex_};
    for (const auto& vlan : vlans_)
        if (vlan.vid == entry.vlan) return {vlan.name, vlan.index};
    return {};
}

wire::NetworkType Device::cm_network(const wire::Gid& address) const {
    if (cm_roce_v1_) return wire::NetworkType::RoceV1;
    return address.is_ipv4_mapped() ? wire::NetworkType::V2Ipv4 : wire::NetworkType::V2Ipv6;
}

// An address of a configured VLAN: the kernel, whose interface it is, knows nothing of it.
bool Device::is_only_ours(const wire::Gid& address) const {
    return std::any_of(configured_.begin(), configured_.end(),
                       [&](const auto& own) { return own.gid == address && own.vlan != wire::kNoVlan; });
}

engine::PortState Device::state() const {
    engine::PortState state{mac_, mtu_, {}};
    for (const auto& entry : gids_.entries())
        if (entry.used && entry.version == net::RoceVersion::V2)
            state.addresses.push_back({entry.gid, netdev_.empty() || is_only_ours(entry.gid), entry.vlan});
    return state;
}

}  // namespace rocemu::control
