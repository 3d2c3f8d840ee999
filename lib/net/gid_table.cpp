// SPDX-License-Identifier: BSD-3-Clause
// GidTable: see gid_table.h for the order.
#include "net/gid_table.h"

#include <algorithm>

namespace rocemu::net {
namespace {

int rank(const wire::Gid& gid) {
    return gid.is_link_local() ? 0 : gid.is_ipv4_mapped() ? 1 : 2;
}

}  // namespace

bool GidTable::add(std::span<const wire::Gid> addresses, uint16_t vlan) {
    bool all = true;
    for (int r = 0; r <= 2; ++r)
        for (const auto& address : addresses)
            if (rank(address) == r && !find(address, RoceVersion::V2)) all &= place(address, vlan);
    return all;
}

bool GidTable::place(const wire::Gid& address, uint16_t vlan) {
    uint32_t index = fresh_;
    if (index + 2 <= capacity()) {
        fresh_ += 2;
    } else {
        index = 0;
        while (index + 2 <= capacity() && entries_[index].used) index += 2;
        if (index + 2 > capacity()) return false;
    }
    entries_[index] = {address, RoceVersion::V1, true, vlan};
    entries_[index + 1] = {address, RoceVersion::V2, true, vlan};
    return true;
}

bool GidTable::remove(const wire::Gid& address) {
    bool found = false;
    for (auto& entry : entries_) {
        if (!entry.used || entry.gid != address) continue;
        entry = {};
        found = true;
    }
    return found;
}

void GidTable::rename(const wire::Gid& before, const wire::Gid& now) {
    for (auto& entry : entries_)
        if (entry.used && entry.gid == before) entry.gid = now;
}

std::optional<uint32_t> GidTable::find(const wire::Gid& gid, RoceVersion version) const {
    for (uint32_t i = 0; i < capacity(); ++i)
        if (entries_[i].used && entries_[i].version == version && entries_[i].gid == gid) return i;
    return std::nullopt;
}

std::vector<wire::Gid> GidTable::addresses() const {
    std::vector<wire::Gid> list;
    for (const auto& entry : entries_)
        if (entry.used && entry.version == RoceVersion::V2) list.push_back(entry.gid);
    return list;
}

}  // namespace rocemu::net
