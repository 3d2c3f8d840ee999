// SPDX-License-Identifier: BSD-3-Clause
// InterfaceInfo: MAC address, MTU, state and addresses of a kernel interface, asked for over rtnetlink.
// Read rtnetlink(7): RTM_GETLINK, RTM_GETADDR. The message parser is apart from the request, so that messages of a
// subscribed socket (RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, ...) can be fed to it later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/eth.h"
#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::control {

// An 802.1Q interface on top of the one that is followed.
struct VlanInterface {
    uint32_t index = 0;
    uint16_t vid = 0;
    std::string name;
};

struct InterfaceAddress {
    wire::Gid gid;
    unsigned prefix = 0;  // bits of the GID: that of an IPv4 prefix plus 96
    uint16_t vlan = wire::kNoVlan;
    bool operator==(const InterfaceAddress&) const = default;
};

struct InterfaceInfo {
    uint32_t index = 0;
    std::string name;
    wire::MacAddress mac{};
    uint32_t mtu = 0;
    uint32_t speed_mbps = 0;  // 0: unknown; not from netlink (link_speed.h)
    bool running = false;
    std::vector<VlanInterface> vlans;
    // As the kernel lists them; tentative and link-local ones included, but those of VLANs, which are that of the
    // interface itself once more.
    std::vector<InterfaceAddress> addresses;
};

// nullopt: there is no such interface in this network namespace, or netlink failed (errno).
[[nodiscard]] std::optional<InterfaceInfo> read_interface(const std::string& name);
[[nodiscard]] std::optional<InterfaceInfo> read_interface(uint32_t index);
// Whether there is none of this number any more: removed, or in another network namespace.
[[nodiscard]] bool interface_is_gone(uint32_t index);

// Takes what the netlink messages in `bytes` say about interface `info.index` and its VLANs. False: the end of a dump was among them.
bool take_messages(std::span<const std::byte> bytes, InterfaceInfo& info);

}  // namespace rocemu::control
