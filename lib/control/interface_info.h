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

#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::control {

struct InterfaceInfo {
    uint32_t index = 0;
    wire::MacAddress mac{};
    uint32_t mtu = 0;
    bool running = false;
    std::vector<wire::Gid> addresses;  // as the kernel lists them; tentative and link-local ones included
};

// nullopt: there is no such interface in this network namespace, or netlink failed (errno).
[[nodiscard]] std::optional<InterfaceInfo> read_interface(const std::string& name);

// Takes what the netlink messages in `bytes` say about interface `info.index`. False: the end of a dump was among them.
bool take_messages(std::span<const std::byte> bytes, InterfaceInfo& info);

}  // namespace rocemu::control
