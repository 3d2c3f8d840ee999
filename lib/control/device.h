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
    std::optional<uint32_t> fabric_nic;  // number at the switch
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
    [[nodiscard]] const wire::MacAddress& mac() const { return mac_; }
    [[nodiscard]] uint32_t mtu() const { return mtu_; }
    [[nodiscard]] uint8_t active_mtu() const;  // enum ibv_mtu
    [[nodiscard]] uint64_t node_guid() const;
    [[nodiscard]] bool link_up() const { return link_up_; }
    [[nodiscard]] uint32_t speed_mbps() const { return speed_mbps_; }
    [[nodiscard]] std::optional<uint32_t> fabric_nic() const { return fabric_nic_; }
    [[nodiscard]] const net::GidTable& gids() const { return gids_; }
    GroupMemberships& memberships() { return memberships_; }
    net::NeighbourTable& neighbours() { return neighbours_; }

    // Our address in whose configured subnet `address` lies, or nullopt.
    [[nodiscard]] std::optional<wire::Gid> address_near(const wire::Gid& address) const;

    // What an interface that was read again has changed.
    struct Changes {
        bool gids = false, link = false, mtu = false;
        [[nodiscard]] bool any() const { return gids || link || mtu; }
    };
    Changes follow(const InterfaceInfo& interface);
    Changes lost_interface();  // it was removed: the link is down

    // What the shards must know about our addresses.
    [[nodiscard]] std::vector<engine::LocalAddress> local_addresses() const;

  private:
    bool take_addresses(const std::vector<wire::Gid>& addresses);

    uint32_t id_;
    std::string name_, port_, netdev_;
    uint32_t ifindex_ = 0;
    wire::MacAddress mac_{};
    uint32_t mtu_ = 0;
    uint32_t mtu_limit_ = 0;         // of port and configuration
    bool follow_addresses_ = false;  // none are configured: the interface's are ours
    std::vector<wire::Gid> followed_;
    bool link_up_ = true;
    uint32_t speed_mbps_ = 0;
    std::optional<uint32_t> fabric_nic_;
    struct Subnet {
        wire::Gid address;
        unsigned prefix = 0;  // bits of the GID: that of an IPv4 prefix plus 96
    };
    std::vector<Subnet> subnets_;
    net::GidTable gids_;
    net::NeighbourTable neighbours_;
    GroupMemberships memberships_;
};

}  // namespace rocemu::control
