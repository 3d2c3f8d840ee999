// SPDX-License-Identifier: BSD-3-Clause
// See interface_watch.h.
#include "control/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "abi/messages.h"
#include "control/control.h"
#include "control/log.h"

namespace rocemu::control {

InterfaceWatch::InterfaceWatch(Control& control) : control_(control) {
    follow_interfaces();
    control.loop.every(kSecond, [this] { look_at_links(); });
}

void InterfaceWatch::follow_interfaces() {
    const auto& devices = control_.devices;
    if (std::none_of(devices.begin(), devices.end(), [](const auto& d) { return !d->netdev().empty(); })) return;
    guard();
    socket_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (!socket_ || bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        !control_.loop.add(socket_.get(), EPOLLIN, [this](uint32_t) { drain(); })) {
        log::warn("changes of kernel interfaces are not followed: {}", std::strerror(errno));
        socket_ = {};
        return;
    }
    look_again();  // what changed between the start of the devices and the subscription
}

InterfaceWatch::~InterfaceWatch() {
    if (socket_) control_.loop.remove(socket_.get());
}

// ENOBUFS: messages were lost; reading everything anew is the answer to that too.
void InterfaceWatch::drain() {
    std::array<std::byte, 16384> buffer;
    while (recv(socket_.get(), buffer.data(), buffer.size(), 0) > 0 || errno == ENOBUFS || errno == EINTR) {
    }
    look_again();
}

void InterfaceWatch::look_again() {
    for (auto& device : control_.devices) {
        if (device->netdev().empty() || device->lost()) continue;
        // By number: another one that got its name is another wire.
        const auto interface = read_interface(device->ifindex());
        if (!interface && !interface_is_gone(device->ifindex())) continue;  // could not be read
        if (!interface)
            log::warn("{}: {} was removed; what takes its place is used when rocemud is restarted", device->name(),
                      device->netdev());
        const Device::Changes changes = interface ? device->follow(*interface) : device->lost_interface();
        if (changes.any()) tell(*device, changes);
    }
    guard();
}

void InterfaceWatch::look_at_links() {
    for (auto& device : control_.devices)
        if (const Device::Changes changes = device->look_at_link(); changes.any()) tell(*device, changes);
}

void InterfaceWatch::guard() {
    std::map<uint32_t, std::unique_ptr<UdpGuard>> wanted;
    const auto want = [&](const std::string& name, uint32_t index) {
        if (wanted.contains(index)) return;
        if (const auto it = guards_.find(index); it != guards_.end()) {
            wanted[index] = std::move(it->second);
            return;
        }
        std::string error;
        wanted[index] = UdpGuard::open(name, error);
        if (!wanted[index]) log::warn("the kernel may answer RoCE packets with ICMP errors: {}", error);
    };
    for (const auto& device : control_.devices) {
        if (device->netdev().empty()) continue;
        want(device->netdev(), device->ifindex());
        for (const auto& vlan : device->vlans()) want(vlan.name, vlan.index);
    }
    guards_ = std::move(wanted);
}

void InterfaceWatch::tell(const Device& device, const Device::Changes& changes) {
    log::info("{}: {} changed:{}{}{}{}", device.name(), device.netdev().empty() ? device.port() : device.netdev(), changes.gids ? " addresses" : "",
              changes.mac ? " MAC" : "", changes.mtu ? " MTU" : "",
              changes.link ? (device.link_up() ? " link up" : " link down") : "");
    control_.shards.submit_all(
        [id = device.id(), state = device.state()](engine::Shard& shard, uint32_t) {
            shard.set_port_state(id, state);
            return true;
        },
        [] {});
    if (changes.mac) control_.resolver.announce(device);
    if (changes.gids) control_.raise_port_event(device, AsyncEvent::GidChange);
    if (changes.link)
        control_.raise_port_event(device, device.link_up() ? AsyncEvent::PortActive : AsyncEvent::PortErr);
}

}  // namespace rocemu::control
