// SPDX-License-Identifier: BSD-3-Clause
// See group_memberships.h. One socket for each group: the kernel limits groups by socket (igmp_max_memberships).
#include "control/group_memberships.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/device_attributes.h"

namespace rocemu::control {
namespace {

int join_kernel(const wire::Gid& group, uint32_t ifindex, UniqueFd& socket) {
    const bool v4 = group.is_ipv4_mapped();
    socket = UniqueFd(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    int rc = 0;
    if (v4) {
        ip_mreqn request{};
        request.imr_multiaddr.s_addr = htonl(group.ipv4());
        request.imr_ifindex = static_cast<int>(ifindex);
        rc = setsockopt(socket.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    } else {
        ipv6_mreq request{};
        std::memcpy(&request.ipv6mr_multiaddr, group.raw.data(), group.raw.size());
        request.ipv6mr_interface = ifindex;
        rc = setsockopt(socket.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
    }
    return rc == 0 ? 0 : errno;
}

}  // namespace

int GroupMemberships::join(const wire::Gid& group, uint32_t ifindex) {
    const auto it = std::find_if(list_.begin(), list_.end(), [&](const auto& m) { return m.group == group; });
    if (it != list_.end()) {
        ++it->users;
        return 0;
    }
    if (list_.size() >= kMaxGroups) return ENOMEM;
    Membership m;
    m.group = group;
    m.users = 1;
    if (ifindex != 0)
        if (const int error = join_kernel(group, ifindex, m.socket)) return error;
    list_.push_back(std::move(m));
    return 0;
}

void GroupMemberships::leave(const wire::Gid& group) {
    const auto it = std::find_if(list_.begin(), list_.end(), [&](const auto& m) { return m.group == group; });
    if (it == list_.end() || --it->users != 0) return;
    if (it->reports != 0) left_.push_back(group);
    list_.erase(it);
}

std::vector<GroupMemberships::Report> GroupMemberships::due_reports(Instant now) {
    std::vector<Report> due;
    for (const auto& group : left_) due.push_back({group, net::GroupChange::Left});
    left_.clear();
    for (auto& m : list_) {
        if (now < m.next_report) continue;
        // RFC 3376 8.1, 8.11: a change is told twice, the second time within a second.
        due.push_back({m.group, m.reports < 2 ? net::GroupChange::Joined : net::GroupChange::Still});
        m.next_report = now + (m.reports == 0 ? kSecond : 60 * kSecond);
        m.reports = std::min(m.reports + 1, 2u);
    }
    return due;
}

}  // namespace rocemu::control
