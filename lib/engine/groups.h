// SPDX-License-Identifier: BSD-3-Clause
// Groups: which datagram QPs of this shard are members of which multicast group of a device. Few and rarely changed:
// lists. Read IBTA volume 1, 10.5.2 (multicast).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/gid.h"

namespace rocemu::engine {

struct QpRecord;

inline constexpr uint32_t kMulticastQpn = 0xffffff;  // IBTA 3.5.10: destination of every multicast packet

class Groups {
  public:
    [[nodiscard]] bool empty() const { return groups_.empty(); }
    [[nodiscard]] std::span<QpRecord* const> members(const wire::Gid& gid) const {
        const auto it = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.gid == gid; });
        return it == groups_.end() ? std::span<QpRecord* const>{} : it->members;
    }
    void join(const wire::Gid& gid, QpRecord& record) {
        for (Group& g : groups_)
            if (g.gid == gid) return g.members.push_back(&record);
        groups_.push_back({gid, {&record}});
    }
    void leave(const wire::Gid& gid, QpRecord& record) {
        for (Group& g : groups_)
            if (g.gid == gid) std::erase(g.members, &record);
        drop_empty();
    }
    void forget(QpRecord& record) {
        for (Group& g : groups_) std::erase(g.members, &record);
        drop_empty();
    }

  private:
    struct Group {
        wire::Gid gid;
        std::vector<QpRecord*> members;
    };
    void drop_empty() {
        std::erase_if(groups_, [](const Group& g) { return g.members.empty(); });
    }
    std::vector<Group> groups_;
};

}  // namespace rocemu::engine
