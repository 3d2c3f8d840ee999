// SPDX-License-Identifier: BSD-3-Clause
// See vdev_args.h.
#include "pmd/vdev_args.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace rocemu::pmd {

VdevArgs::VdevArgs(const std::string& spec) {
    size_t at = 0;
    for (bool first = true; at <= spec.size(); first = false) {
        const size_t end = std::min(spec.find(',', at), spec.size());
        const std::string item = spec.substr(at, end - at);
        at = end + 1;
        if (first) {
            device_ = item;
        } else if (!item.empty()) {
            const size_t eq = item.find('=');
            args_.emplace_back(item.substr(0, eq), eq == std::string::npos ? "" : item.substr(eq + 1));
        }
    }
}

std::string VdevArgs::driver() const {
    const size_t last = device_.find_last_not_of("0123456789");
    return last == std::string::npos ? device_ : device_.substr(0, last + 1);
}

// 0000:03:00.0 or 03:00.0
bool VdevArgs::is_pci() const {
    return device_.find(':') != std::string::npos;
}

std::string VdevArgs::get(const std::string& key) const {
    for (const auto& [k, v] : args_)
        if (k == key) return v;
    return {};
}

unsigned VdevArgs::number(const std::string& key, unsigned max) const {
    const std::string text = get(key);
    if (text.empty()) return 0;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > max)
        throw std::runtime_error("port " + device_ + ": " + key + "=" + text + ": must be a number, 1 to " +
                                 std::to_string(max));
    return value;
}

void VdevArgs::set_default(const std::string& key, const std::string& value) {
    if (std::none_of(args_.begin(), args_.end(), [&](const auto& a) { return a.first == key; }))
        args_.emplace_back(key, value);
}

std::string VdevArgs::arguments() const {
    std::string out;
    for (const auto& [k, v] : args_) out += (out.empty() ? "" : ",") + k + (v.empty() ? "" : "=" + v);
    return out;
}

unsigned interface_mtu(const std::string& netdev) {
    ifreq request{};
    std::strncpy(request.ifr_name, netdev.c_str(), IFNAMSIZ - 1);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    const bool ok = ioctl(fd, SIOCGIFMTU, &request) == 0;
    close(fd);
    return ok ? static_cast<unsigned>(request.ifr_mtu) : 0;
}

unsigned af_packet_frame_size(unsigned mtu) {
    // In front of the frame: TPACKET_V2 header and address, 66 bytes.
    constexpr unsigned kOverhead = 66 + 14 + 4;
    return mtu + kOverhead <= 2048 ? 2048 : kLargestSlot;
}

}  // namespace rocemu::pmd
