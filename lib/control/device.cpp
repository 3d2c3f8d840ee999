// SPDX-License-Identifier: BSD-3-Clause
// Device: see device.h. Addresses in ConnectX order: the link-local GID made from the MAC address always exists.
#include "control/device.h"

#include <algorithm>
#include <stdexcept>

#include "config/config.h"
#include "net/eui64.h"
#include "net/iboe_mtu.h"

namespace rocemu::control {

Device::Device(uint32_t id, const DeviceInit& init)
    : id_(id), name_(init.name), port_(init.port), netdev_(init.netdev), fabric_nic_(init.fabric_nic) {
    std::copy(std::begin(init.info.mac), std::end(init.info.mac), mac_.begin());
    mtu_ = init.info.mtu;
    link_up_ = init.info.link_up;
    speed_mbps_ = init.info.speed_mbps;

    std::vector<wire::Gid> addresses{net::link_local_gid(mac_)};
    for (const auto& text : init.addresses) {
        std::string address;
        int prefix = 0;
        if (!config::split_address(text, address, prefix))
            throw std::runtime_error(name_ + ": '" + text + "' is not an address with prefix length");
        const auto gid = wire::parse_gid(address);
        if (!gid) continue;
        addresses.push_back(*gid);
        subnets_.push_back({*gid, static_cast<unsigned>(prefix) + (gid->is_ipv4_mapped() ? 96 : 0)});
    }
    gids_.add(addresses);

    if (init.mtu != 0) mtu_ = mtu_ == 0 ? init.mtu : std::min(mtu_, init.mtu);
    mtu_limit_ = mtu_;
    if (!netdev_.empty()) {
        const auto interface = read_interface(netdev_);
        if (!interface) throw std::runtime_error(name_ + ": there is no kernel interface '" + netdev_ + "'");
        ifindex_ = interface->index;
        follow_addresses_ = init.addresses.empty();
        follow(*interface);
    }
    if (net::iboe_mtu(mtu_) == 0)
        throw std::runtime_error(name_ + ": an MTU of " + std::to_string(mtu_) + " bytes is too small for RoCE");
}

Device::Changes Device::follow(const InterfaceInfo& interface) {
    Changes changes;
    // A port's own limit stays one: its frames are no larger. An MTU too small for RoCE is not followed.
    const uint32_t mtu = mtu_limit_ == 0 ? interface.mtu : std::min(mtu_limit_, interface.mtu);
    if (mtu != mtu_ && net::iboe_mtu(mtu) != 0) {
        mtu_ = mtu;
        changes.mtu = true;
    }
    changes.link = link_up_ != interface.running;
    link_up_ = interface.running;
    changes.gids = follow_addresses_ && take_addresses(interface.addresses);
    return changes;
}

Device::Changes Device::lost_interface() {
    Changes changes;
    changes.link = link_up_;
    link_up_ = false;
    return changes;
}

// The difference to what was there before; addresses that stay keep their indices.
bool Device::take_addresses(const std::vector<wire::Gid>& addresses) {
    bool changed = false;
    const auto has = [](const std::vector<wire::Gid>& list, const wire::Gid& gid) {
        return std::find(list.begin(), list.end(), gid) != list.end();
    };
    const wire::Gid own = net::link_local_gid(mac_);
    for (const auto& gid : followed_)
        if (!has(addresses, gid) && gid != own) changed |= gids_.remove(gid);
    std::vector<wire::Gid> fresh;
    for (const auto& gid : addresses)
        if (!gids_.find(gid, net::RoceVersion::V2)) fresh.push_back(gid);
    if (!fresh.empty()) changed |= gids_.add(fresh);
    followed_ = addresses;
    return changed;
}

uint8_t Device::active_mtu() const {
    return net::iboe_mtu(mtu_);
}
uint64_t Device::node_guid() const {
    return net::guid_of(mac_);
}

std::optional<wire::Gid> Device::address_near(const wire::Gid& address) const {
    for (const auto& subnet : subnets_) {
        unsigned bit = 0;
        const auto differs = [&](unsigned b) {
            return ((subnet.address.raw[b / 8] ^ address.raw[b / 8]) & (0x80u >> b % 8)) != 0;
        };
        while (bit < subnet.prefix && bit < 128 && !differs(bit)) ++bit;
        if (bit >= subnet.prefix) return subnet.address;
    }
    return std::nullopt;
}

std::vector<engine::LocalAddress> Device::local_addresses() const {
    std::vector<engine::LocalAddress> list;
    for (const auto& gid : gids_.addresses()) list.push_back({gid, netdev_.empty()});
    return list;
}

}  // namespace rocemu::control
