// SPDX-License-Identifier: BSD-3-Clause
// Resolver: from a destination GID to the MAC address on the wire: our own addresses, the other NICs of the fabric,
// link-local addresses made from MAC addresses, else a neighbour found by ARP or neighbour discovery. The answer may
// come later; requests leave through shard 0, what peers tell comes back as shard events.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "control/device.h"
#include "control/shard_link.h"

namespace rocemu::control {

class Resolver {
  public:
    // 0 and the address, or ETIMEDOUT (nobody answered), EHOSTUNREACH (just tried, nobody answered).
    using Answer = std::function<void(int error, const wire::MacAddress& mac)>;

    Resolver(std::vector<std::unique_ptr<Device>>& devices, ShardSet& shards) : devices_(devices), shards_(shards) {}

    // Who wants to know it. A program's call is one of a bounded number of its session; a MAD may answer somebody who
    // invents addresses: few of them wait, the others are lost at once (ENOBUFS), as on the wire.
    enum class For : uint8_t { Call, Mad };
    static constexpr size_t kMaxMads = 512, kMaxMadsPerAddress = 16;
    void resolve(Device& device, const wire::Gid& address, Answer answer, For whom = For::Call);
    // It would take a place in the device's table of neighbours: nobody knows the address or is searching for it.
    [[nodiscard]] bool would_search(Device& device, const wire::Gid& address) const;
    [[nodiscard]] size_t waiting() const;
    // An ARP or ND message told it.
    void learn(uint32_t device, const wire::Gid& address, const wire::MacAddress& mac, Instant now);
    // Tells the neighbours of a device our addresses (RFC 5227 2.3, RFC 4861 7.2.6): its MAC address has changed.
    void announce(const Device& device);
    // Tells routers and switches which multicast groups we want, where no kernel does; every 100 ms or so.
    void report_groups(Instant now);
    // Tells the shards which neighbours have moved; every 100 ms or so. A walk over all their QPs and address handles:
    // however often neighbours change, there is one at a time.
    void tell_moves();
    // Requests and time limits that are due; every 100 ms or so.
    void tick(Instant now);

  private:
    using Target = std::pair<uint32_t, std::array<uint8_t, 16>>;  // device, address
    struct Waiters {
        std::vector<Answer> answers;
        size_t mads = 0;  // of them
    };
    // Without asking anybody.
    [[nodiscard]] std::optional<wire::MacAddress> known(const Device& device, const wire::Gid& address) const;
    [[nodiscard]] bool room_for_mad(const Target& target) const;
    void request(const Device& device, const wire::Gid& target);
    void send(const Device& device, std::span<const std::byte> untagged, uint16_t vlan);
    void finish(uint32_t device, const wire::Gid& address, int error, const wire::MacAddress& mac);

    std::vector<std::unique_ptr<Device>>& devices_;
    ShardSet& shards_;
    std::map<Target, Waiters> waiters_;
    size_t mads_ = 0;  // of all that wait
    std::map<Target, wire::MacAddress> moved_;  // not told yet; of addresses that were in the tables since the last telling
    bool telling_ = false;
};

}  // namespace rocemu::control
