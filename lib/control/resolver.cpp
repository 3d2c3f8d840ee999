// SPDX-License-Identifier: BSD-3-Clause
// Resolver: see resolver.h. Everything is taken to be on the link: routers are not asked yet.
#include "control/resolver.h"

#include <array>
#include <cerrno>

#include "net/arp.h"
#include "net/eui64.h"
#include "net/group_report.h"
#include "net/multicast.h"
#include "net/neighbour_discovery.h"
#include "net/small_frame.h"

namespace rocemu::control {

std::optional<wire::MacAddress> Resolver::known(const Device& device, const wire::Gid& address) const {
    if (address.is_multicast()) return net::multicast_mac(address);
    if (device.gids().find(address, net::RoceVersion::V2)) return device.mac();
    if (device.fabric_nic())
        for (const auto& other : devices_)
            if (other->fabric_nic() && other->gids().find(address, net::RoceVersion::V2)) return other->mac();
    return net::mac_of_link_local(address);
}

bool Resolver::would_search(Device& device, const wire::Gid& address) const {
    using State = net::NeighbourTable::State;
    return !known(device, address) && device.neighbours().state_of(address).value_or(State::Failed) == State::Failed;
}

void Resolver::resolve(Device& device, const wire::Gid& address, Answer answer, For whom) {
    if (const auto mac = known(device, address)) return answer(0, *mac);
    const Instant now = EventLoop::now();
    auto& table = device.neighbours();
    // Before it takes one of the table's entries, which are for all.
    if (whom == For::Mad && !table.lookup(address) && !room_for_mad({device.id(), address.raw}))
        return answer(ENOBUFS, {});
    const bool trying = table.resolve(address, now);
    if (const auto mac = table.lookup(address)) {
        tick(now);
        return answer(0, *mac);
    }
    if (!trying) return answer(EHOSTUNREACH, {});
    Waiters& waiters = waiters_[{device.id(), address.raw}];
    if (whom == For::Mad) {
        ++mads_;
        ++waiters.mads;
    }
    waiters.answers.push_back(std::move(answer));
    tick(now);
}

void Resolver::send(const Device& device, std::span<const std::byte> untagged, uint16_t vlan) {
    shards_.submit(
        0,
        [frame = net::SmallFrame(untagged, vlan), id = device.id()](engine::Shard& shard) {
            shard.send_raw(id, frame.bytes());
            return true;
        },
        [] {});
}

void Resolver::request(const Device& device, const wire::Gid& target) {
    const auto own = device.source_for(target);
    if (!own) return;
    if (target.is_ipv4_mapped())
        send(device, net::arp_request(device.mac(), own->ipv4(), target.ipv4()), device.vlan_of(*own));
    else
        send(device, net::neighbour_solicitation(device.mac(), *own, target), device.vlan_of(*own));
}

void Resolver::announce(const Device& device) {
    for (const auto& address : device.gids().addresses()) {
        net::NdMessage nobody_asked;
        nobody_asked.target = address;
        if (address.is_ipv4_mapped())
            send(device, net::arp_request(device.mac(), address.ipv4(), address.ipv4()), device.vlan_of(address));
        else
            send(device, net::neighbour_advertisement(device.mac(), nobody_asked), device.vlan_of(address));
    }
}

void Resolver::report_groups(Instant now) {
    for (auto& device : devices_) {
        if (device->fabric_nic() || device->ifindex() != 0) continue;
        for (const auto& report : device->memberships().due_reports(now)) {
            // In each VLAN that has an address of the kind. RFC 3810 5.2.13: link-local ones.
            for (const auto& own : device->gids().addresses())
                if (own.is_ipv4_mapped() == report.group.is_ipv4_mapped() && (own.is_ipv4_mapped() || own.is_link_local()))
                    send(*device, net::GroupReport(device->mac(), own, report.group, report.change).bytes(), device->vlan_of(own));
        }
    }
}

void Resolver::learn(uint32_t device, const wire::Gid& address, const wire::MacAddress& mac, Instant now) {
    if (device >= devices_.size()) return;
    const auto news = devices_[device]->neighbours().learn(address, mac, now);
    if (news == net::NeighbourTable::News::None) return;
    if (news == net::NeighbourTable::News::Moved) moved_[{device, address.raw}] = mac;
    finish(device, address, 0, mac);
}

void Resolver::tell_moves() {
    if (telling_ || moved_.empty()) return;
    std::vector<engine::NeighbourMove> moves;
    for (const auto& [target, mac] : moved_) moves.push_back({target.first, {target.second}, mac});
    moved_.clear();
    telling_ = true;
    shards_.submit_all(
        [list = std::make_shared<const std::vector<engine::NeighbourMove>>(std::move(moves))](engine::Shard& shard, uint32_t) {
            shard.neighbours_moved(*list);
            return true;
        },
        [this] { telling_ = false; });
}

void Resolver::tick(Instant now) {
    for (auto& device : devices_) {
        auto& table = device->neighbours();
        if (now < table.next_deadline()) continue;
        std::array<wire::Gid, 16> list;
        size_t n = 0;
        do {
            n = table.poll_requests(now, list);
            for (size_t i = 0; i < n; ++i) request(*device, list[i]);
        } while (n == list.size());
        do {
            n = table.poll_failures(list);
            for (size_t i = 0; i < n; ++i) finish(device->id(), list[i], ETIMEDOUT, {});
        } while (n == list.size());
    }
}

void Resolver::finish(uint32_t device, const wire::Gid& address, int error, const wire::MacAddress& mac) {
    const auto it = waiters_.find({device, address.raw});
    if (it == waiters_.end()) return;
    mads_ -= it->second.mads;
    const auto ready = std::move(it->second.answers);  // they may come back to resolve()
    waiters_.erase(it);
    for (const auto& answer : ready) answer(error, mac);
}

bool Resolver::room_for_mad(const Target& target) const {
    const auto it = waiters_.find(target);
    return mads_ < kMaxMads && (it == waiters_.end() || it->second.mads < kMaxMadsPerAddress);
}

size_t Resolver::waiting() const {
    size_t n = 0;
    for (const auto& [target, waiters] : waiters_) n += waiters.answers.size();
    return n;
}

}  // namespace rocemu::control
