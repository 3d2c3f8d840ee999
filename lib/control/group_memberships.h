// SPDX-License-Identifier: BSD-3-Clause
// GroupMemberships: the multicast groups a port has joined, each as often as QPs are attached. Behind a kernel interface
// the kernel is asked to join: it sends the IGMP or MLD reports (RFC 3376, RFC 3810), answers queries and opens the
// MAC filter. The fabric floods groups, there is nobody to tell.
#pragma once

#include <cstdint>
#include <vector>

#include "control/unique_fd.h"
#include "wire/gid.h"

namespace rocemu::control {

class GroupMemberships {
  public:
    // 0, or errno: ENOMEM above the limit, what the kernel says. `ifindex` 0: no kernel interface.
    int join(const wire::Gid& group, uint32_t ifindex);
    void leave(const wire::Gid& group);

  private:
    struct Membership {
        wire::Gid group;
        uint32_t users = 0;
        UniqueFd socket;  // the membership lasts as long as it
    };
    std::vector<Membership> list_;
};

}  // namespace rocemu::control
