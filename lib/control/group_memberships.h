// SPDX-License-Identifier: BSD-3-Clause
// GroupMemberships: the multicast groups a port has joined, each as often as QPs are attached. Behind a kernel interface
// the kernel is asked to join: it sends the IGMP or MLD reports (RFC 3376, RFC 3810), answers queries and opens the
// MAC filter. Without one the reports are made here. The fabric floods groups, there is nobody to tell.
//
// DEVIATION: RFC 3376 5.2, RFC 3810 6.2: queries are not answered but anticipated: each group is told again every minute,
// twice in the interval in which routers and switches ask (125 s).
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "control/unique_fd.h"
#include "net/group_report.h"
#include "wire/gid.h"

namespace rocemu::control {

class GroupMemberships {
  public:
    struct Report {
        wire::Gid group;
        net::GroupChange change;
    };
    // 0, or errno: ENOMEM above the limit, what the kernel says. `ifindex` 0: no kernel interface.
    int join(const wire::Gid& group, uint32_t ifindex);
    void leave(const wire::Gid& group);
    // What a port without a kernel interface has to tell by now; at most so many as were joined or left.
    std::vector<Report> due_reports(Instant now);

  private:
    struct Membership {
        wire::Gid group;
        uint32_t users = 0;
        UniqueFd socket;  // the membership lasts as long as it
        uint32_t reports = 0;
        Instant next_report{0};
    };
    std::vector<Membership> list_;
    std::vector<wire::Gid> left_;  // not told yet
};

}  // namespace rocemu::control
