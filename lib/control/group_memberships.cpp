// SPDX-License-Identifier: BSD-3-Clause
// See group_memberships.h. One socket for each group, in all interfaces: the kernel limits memberships by socket
// (igmp_max_memberships, 20).
#include "control/group_memberships.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/device_attributes.h"
#include "control/log.h"

namespace rocemu::control {
namespace {

int join_kernel(const UniqueFd& socket, const wire::Gid& group, uint32_t ifindex) {
    int rc = 0;
    if (group.is_ipv4_mapped()) {
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
    // EADDRINUSE: a member from before, of an interface that was down meanwhile.
    return rc == 0 || errno == EADDRINUSE ? 0 : errno;
}

// The port's own interface must let it join; one of a VLAN may be without addresses, or of one protocol alone.
void join_vlan(const UniqueFd& socket, const wire::Gid& group, uint32_t ifindex) {
    if (const int error = join_kernel(socket, group, ifindex))
        log::info("interface {} does not join {}: {}", ifindex, wire::to_string(group), std::strerror(error));
}

}  // namespace

void GroupMemberships::use(std::vector<uint32_t> interfaces) {
    for (const uint32_t index : interfaces)
        if (std::find(interfaces_.begin(), interfaces_.end(), index) == interfaces_.end())
            for (const auto& m : list_) join_vlan(m.socket, m.group, index);
    interfaces_ = std::move(interfaces);
}

int GroupMemberships::join(const wire::Gid& group, uint32_t session) {
    const auto it = std::find_if(list_.begin(), list_.end(), [&](const auto& m) { return m.group == group; });
    const bool again = it != list_.end() && it->users.contains(session);
    const auto share = shares_.find(session);
    if (!again && share != shares_.end() && share->second >= kMaxGroupsPerSession) return ENOMEM;
    if (it == list_.end()) {
        if (const int error = begin(group)) return error;
        list_.back().users[session] = 1;
    } else {
        ++it->users[session];
    }
    if (!again) ++shares_[session];
    return 0;
}

// A new member at the end of the list.
int GroupMemberships::begin(const wire::Gid& group) {
    if (list_.size() >= kMaxGroups) return ENOMEM;
    Membership m;
    m.group = group;
    if (!interfaces_.empty()) {
        m.socket = UniqueFd(::socket(group.is_ipv4_mapped() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (!m.socket) return errno;
        if (const int error = join_kernel(m.socket, group, interfaces_.front())) return error;
        for (size_t i = 1; i < interfaces_.size(); ++i) join_vlan(m.socket, group, interfaces_[i]);
    }
    std::erase_if(left_, [&](const Departure& d) { return d.group == group; });
    list_.push_back(std::move(m));
    return 0;
}

void GroupMemberships::leave(const wire::Gid& group, uint32_t session) {
    const auto it = std::find_if(list_.begin(), list_.end(), [&](const auto& m) { return m.group == group; });
    if (it == list_.end()) return;
    const auto user = it->users.find(session);
    if (user == it->users.end() || --user->second != 0) return;
    it->users.erase(user);
    if (--shares_[session] == 0) shares_.erase(session);
    if (!it->users.empty()) return;
    if (it->reports != 0) left_.push_back({group});
    list_.erase(it);
}

std::vector<GroupMemberships::Report> GroupMemberships::due_reports(Instant now) {
    // RFC 3376 8.1, 8.11, RFC 3810 9.1, 9.11: a change is told twice, the second time within a second.
    constexpr uint32_t kRobustness = 2;
    std::vector<Report> due;
    for (auto& d : left_) {
        if (now < d.next_report) continue;
        due.push_back({d.group, net::GroupChange::Left});
        d.next_report = now + kSecond;
        ++d.reports;
    }
    std::erase_if(left_, [](const Departure& d) { return d.reports == kRobustness; });
    for (auto& m : list_) {
        if (now < m.next_report) continue;
        due.push_back({m.group, m.reports < kRobustness ? net::GroupChange::Joined : net::GroupChange::Still});
        m.next_report = now + (m.reports == 0 ? kSecond : 60 * kSecond);
        m.reports = std::min(m.reports + 1, kRobustness);
    }
    return due;
}

}  // namespace rocemu::control
