// SPDX-License-Identifier: BSD-3-Clause
// GidTable: the GIDs of a port in the order of a ConnectX: each address has a RoCE v1 entry and directly behind it a
// RoCE v2 entry; the link-local address comes first, then IPv4 addresses, then global IPv6 ones, each in the order they
// were configured. An index never changes while its address lives (programs are started with -g INDEX): a removed
// address leaves a hole, and holes are filled only when the table has no fresh place left. The addresses of VLANs on the
// port are in the same table; packets from and to them are tagged.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "wire/eth.h"
#include "wire/gid.h"
#include "wire/network_type.h"

namespace rocemu::net {

enum class RoceVersion : uint8_t { V1, V2 };

struct GidEntry {
    wire::Gid gid;
    RoceVersion version = RoceVersion::V1;
    bool used = false;
    uint16_t vlan = wire::kNoVlan;  // VID of the address's interface
};

class GidTable {
  public:
    // Entries; even. The table never grows beyond it.
    explicit GidTable(uint32_t capacity = 256) { entries_.resize(capacity); }

    // Adds addresses that are not there yet, in ConnectX order among themselves. False if one found no place.
    bool add(std::span<const wire::Gid> addresses, uint16_t vlan = wire::kNoVlan);
    // False if it was not there.
    bool remove(const wire::Gid& address);
    // `now` takes the indices of `before` (the link-local address of a port whose MAC address changed).
    void rename(const wire::Gid& before, const wire::Gid& now);

    [[nodiscard]] uint32_t capacity() const { return static_cast<uint32_t>(entries_.size()); }
    // nullptr: index past the end or an empty entry.
    [[nodiscard]] const GidEntry* at(uint32_t index) const {
        return index < entries_.size() && entries_[index].used ? &entries_[index] : nullptr;
    }
    [[nodiscard]] std::optional<uint32_t> find(const wire::Gid& gid, RoceVersion version) const;
    [[nodiscard]] std::span<const GidEntry> entries() const { return entries_; }
    // Every address once.
    [[nodiscard]] std::vector<wire::Gid> addresses() const;

  private:
    bool place(const wire::Gid& address, uint16_t vlan);

    std::vector<GidEntry> entries_;
    uint32_t fresh_ = 0;  // entries from here on were never used
};

}  // namespace rocemu::net
