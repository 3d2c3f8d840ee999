// SPDX-License-Identifier: BSD-3-Clause
// See link_speed.h. <linux/ethtool.h>, ETHTOOL_GLINKSETTINGS: the first call is told how many words the masks of link modes
// have, as a negative number; the second must name it.
#include "control/link_speed.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "control/unique_fd.h"

namespace rocemu::control {

uint32_t link_speed(const std::string& interface) {
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) return 0;
    // Behind the structure lie three masks of so many words, at most INT8_MAX each.
    alignas(ethtool_link_settings) std::byte buffer[sizeof(ethtool_link_settings) + 3 * INT8_MAX * sizeof(uint32_t)];
    ifreq call{};
    std::strncpy(call.ifr_name, interface.c_str(), IFNAMSIZ - 1);
    call.ifr_data = reinterpret_cast<char*>(buffer);
    const auto ask = [&](int words) {
        auto* settings = new (buffer) ethtool_link_settings{};
        settings->cmd = ETHTOOL_GLINKSETTINGS;
        settings->link_mode_masks_nwords = static_cast<int8_t>(words);
        return ioctl(fd.get(), SIOCETHTOOL, &call) == 0 ? settings : nullptr;
    };
    const auto* settings = ask(0);
    if (settings == nullptr || settings->link_mode_masks_nwords >= 0) return 0;
    settings = ask(-settings->link_mode_masks_nwords);
    return settings == nullptr || settings->speed == static_cast<uint32_t>(SPEED_UNKNOWN) ? 0 : settings->speed;
}

}  // namespace rocemu::control
