// SPDX-License-Identifier: BSD-3-Clause
// GroupMemberships: the multicast groups a port has joined, each as often as QPs are attached. Behind a kernel interface
// the kernel is asked to join: it sends the IGMP or MLD reports (RFC 3376, RFC 3810), answers queries and opens the
// MAC filter. Without one the reports are made here. The fabric floods groups, there is nobody to tell.
//
// DEVIATION: RFC 3376 5.2, RFC 3810 6.2: queries are not answered but anticipated: each group is told again every minute,
// twice in the interval in which routers and switches ask (125 s).
#pragma once

#include <cstdint>
#include <map>
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
    // The kernel interfaces: the port's, then those of its VLANs. Members join in those that are new. None: no kernel.
    void use(std::vector<uint32_t> interfaces);
    // For a QP of `session`. 0, or errno: ENOMEM above the session's share or the limit, what the kernel says.
    int join(const wire::Gid& group, uint32_t session);
    void leave(const wire::Gid& group, uint32_t session);
    // What a port without a kernel interface has to tell by now; at most so many as were joined or left.
    std::vector<Report> due_reports(Instant now);

  private:
    struct Membership {
        wire::Gid group;
        std::map<uint32_t, uint32_t> users;  // QPs of each session
        UniqueFd socket;  // the memberships in all interfaces last as long as it
        uint32_t reports = 0;
        Instant next_report{0};
    };
    struct Departure {
        wire::Gid group;
        uint32_t reports = 0;
        Instant next_report{0};
    };
    int begin(const wire::Gid& group);

    std::vector<uint32_t> interfaces_;
    std::vector<Membership> list_;
    std::map<uint32_t, uint32_t> shares_;  // groups of each session
    std::vector<Departure> left_;
};

}  // namespace rocemu::control
