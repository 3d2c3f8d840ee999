// SPDX-License-Identifier: BSD-3-Clause
// Device: one emulated NIC as control knows it: identity, GID table, neighbours. The shards have their own part of it
// (engine::DeviceSetup under the same number).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/group_memberships.h"
#include "control/interface_info.h"
#include "engine/port.h"
#include "engine/setup.h"
#include "net/gid_table.h"
#include "net/neighbour_table.h"
#include "wire/mac.h"

namespace rocemu::control {

// What the composition root knows when it has opened a port.
struct DeviceInit {
    std::string name;
    std::string port;                    // as configured, for status
    engine::PortInfo info;               // of the port, as opened
    uint32_t mtu = 0;                    // configured; 0: the port's
    std::vector<std::string> addresses;  // configured, with prefix length
    std::string netdev;                  // kernel interface behind the port, or empty
    const engine::Port* link = nullptr;  // without one: the port that tells the state of the link; nullptr: it stays
    std::optional<uint32_t> fabric_nic;  // number at the switch
    bool cm_roce_v1 = false;             // what rdma_cm connects with
    bool raw_packets = false;            // raw packet QPs may be created
};

class Device {
  public:
    // Throws std::runtime_error with a message that names the device.
    Device(uint32_t id, const DeviceInit& init);

    [[nodiscard]] uint32_t id() const { return id_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] const std::string& port() const { return port_; }
    [[nodiscard]] const std::string& netdev() const { return netdev_; }
    [[nodiscard]] uint32_t ifindex() const { return ifindex_; }
    [[nodiscard]] const std::vector<VlanInterface>& vlans() const { return vlans_; }
    [[nodiscard]] const wire::MacAddress& mac() const { return mac_; }
    [[nodiscard]] uint32_t mtu() const { return mtu_; }
    [[nodiscard]] uint8_t active_mtu() const;  // enum ibv_mtu
    [[nodiscard]] uint64_t node_guid() const { return node_guid_; }
    [[nodiscard]] bool link_up() const { return link_up_; }
    [[nodiscard]] uint32_t speed_mbps() const { return speed_mbps_; }
    [[nodiscard]] std::optional<uint32_t> fabric_nic() const { return fabric_nic_; }
    [[nodiscard]] bool raw_packets() const { return raw_packets_; }
    [[nodiscard]] const net::GidTable& gids() const { return gids_; }
    // How rdma_cm talks from an address.
    [[nodiscard]] wire::NetworkType cm_network(const wire::Gid& address) const;
    GroupMemberships& memberships() { return memberships_; }
    net::NeighbourTable& neighbours() { return neighbours_; }

    // Our address in whose subnet `address` lies, or nullopt.
    [[nodiscard]] std::optional<wire::Gid> address_near(const wire::Gid& address) const;
    // The same, or else our first address of the kind (IPv4, link-local, other IPv6) of `address`.
    [[nodiscard]] std::optional<wire::Gid> source_for(const wire::Gid& address) const;
    // VID of one of our addresses, or wire::kNoVlan.
    [[nodiscard]] uint16_t vlan_of(const wire::Gid& address) const;
    // The kernel interface of an address: that of its VLAN. Without a name where there is none.
    struct Netdev {
        std::string name;
        uint32_t index = 0;
    };
    [[nodiscard]] Netdev netdev_of(const net::GidEntry& entry) const;

    // What an interface that was read again has changed.
    struct Changes {
        bool gids = false, link = false, mtu = false, mac = false;
        [[nodiscard]] bool any() const { return gids || link || mtu || mac; }
    };
    Changes follow(const InterfaceInfo& interface);
    Changes lost_interface();  // it was removed: the link is down, for ever, for the port's sockets were its
    [[nodiscard]] bool lost() const { return lost_; }
    Changes look_at_link();    // of a port without a kernel interface

    // What the shards must know of it.
    [[nodiscard]] engine::PortState state() const;

  private:
    bool take_addresses(const std::vector<InterfaceAddress>& addresses, bool renamed);
    [[nodiscard]] bool is_only_ours(const wire::Gid& address) const;
    bool take_mac(const wire::MacAddress& mac);

    uint32_t id_;
    std::string name_, port_, netdev_;
    uint32_t ifindex_ = 0;
    wire::MacAddress mac_{};
    uint64_t node_guid_ = 0;  // of the first MAC address: a node keeps its GUID
    uint32_t mtu_ = 0;
    uint32_t mtu_limit_ = 0;         // of port and configuration
    bool follow_addresses_ = false;  // no untagged ones are configured: the interface's are ours
    bool link_up_ = true;
    bool lost_ = false;
    bool cm_roce_v1_ = false;
    uint32_t speed_mbps_ = 0;
    std::optional<uint32_t> fabric_nic_;
    const engine::Port* link_;
    bool raw_packets_ = false;
    std::vector<InterfaceAddress> configured_, followed_;  // the latter of the interface and its VLANs
    std::vector<VlanInterface> vlans_;
    net::GidTable gids_;
    net::NeighbourTable neighbours_;
    GroupMemberships memberships_;
};

}  // namespace rocemu::control
