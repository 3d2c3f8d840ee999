// SPDX-License-Identifier: BSD-3-Clause
// rtnetlink: two dumps, one parser.
#include "control/interface_info.h"

#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "control/link_speed.h"
#include "control/unique_fd.h"

// <net/if.h> and <linux/if.h> exclude each other.
extern "C" unsigned int if_nametoindex(const char* name);
extern "C" char* if_indextoname(unsigned int index, char* name);

namespace rocemu::control {
namespace {

struct Attribute {
    uint16_t type;
    std::span<const std::byte> data;
};

std::string text_of(const Attribute& a) {
    const auto* text = reinterpret_cast<const char*>(a.data.data());
    return {text, strnlen(text, a.data.size())};
}

template <typename Visit>
void for_each_attribute(std::span<const std::byte> bytes, Visit visit) {
    while (bytes.size() >= sizeof(rtattr)) {
        rtattr head;
        std::memcpy(&head, bytes.data(), sizeof head);
        if (head.rta_len < sizeof head || head.rta_len > bytes.size()) return;
        visit(Attribute{head.rta_type, bytes.subspan(sizeof head, head.rta_len - sizeof head)});
        bytes = bytes.subspan(std::min<size_t>(bytes.size(), RTA_ALIGN(head.rta_len)));
    }
}

// Another interface: is it a VLAN of ours?
void take_vlan(const ifinfomsg& link, std::span<const std::byte> attributes, InterfaceInfo& info) {
    VlanInterface vlan;
    vlan.index = static_cast<uint32_t>(link.ifi_index);
    uint32_t parent = 0;
    bool is_vlan = false, elsewhere = false;
    for_each_attribute(attributes, [&](const Attribute& a) {
        if (a.type == IFLA_LINK && a.data.size() == sizeof parent) std::memcpy(&parent, a.data.data(), sizeof parent);
        if (a.type == IFLA_LINK_NETNSID) elsewhere = true;  // the parent's number means another interface
        if (a.type == IFLA_IFNAME) vlan.name = text_of(a);
        if (a.type != IFLA_LINKINFO) return;
        for_each_attribute(a.data, [&](const Attribute& about) {
            if (about.type == IFLA_INFO_KIND) is_vlan = text_of(about) == "vlan";
            if (about.type != IFLA_INFO_DATA) return;
            for_each_attribute(about.data, [&](const Attribute& detail) {
                if (detail.type == IFLA_VLAN_ID && detail.data.size() == sizeof vlan.vid)
                    std::memcpy(&vlan.vid, detail.data.data(), sizeof vlan.vid);
            });
        });
    });
    if (is_vlan && !elsewhere && parent == info.index && vlan.vid != 0 && (link.ifi_flags & IFF_UP)) info.vlans.push_back(vlan);
}

void take_link(std::span<const std::byte> body, InterfaceInfo& info) {
    ifinfomsg m;
    if (body.size() < sizeof m) return;
    std::memcpy(&m, body.data(), sizeof m);
    if (m.ifi_index != static_cast<int>(info.index)) return take_vlan(m, body.subspan(NLMSG_ALIGN(sizeof m)), info);
    info.running = (m.ifi_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    for_each_attribute(body.subspan(NLMSG_ALIGN(sizeof m)), [&](const Attribute& a) {
        if (a.type == IFLA_IFNAME) info.name = text_of(a);
        if (a.type == IFLA_ADDRESS && a.data.size() == info.mac.size())
            std::memcpy(info.mac.data(), a.data.data(), info.mac.size());
        if (a.type == IFLA_MTU && a.data.size() == sizeof info.mtu)
            std::memcpy(&info.mtu, a.data.data(), sizeof info.mtu);
    });
}

void take_address(std::span<const std::byte> body, InterfaceInfo& info) {
    ifaddrmsg m;
    if (body.size() < sizeof m) return;
    std::memcpy(&m, body.data(), sizeof m);
    const auto vlan = std::find_if(info.vlans.begin(), info.vlans.end(), [&](const auto& v) { return v.index == m.ifa_index; });
    const bool of_vlan = vlan != info.vlans.end();
    if (m.ifa_index != info.index && !of_vlan) return;
    // IFA_LOCAL is ours on point-to-point links, where IFA_ADDRESS is the peer's.
    std::optional<wire::Gid> local, address;
    for_each_attribute(body.subspan(NLMSG_ALIGN(sizeof m)), [&](const Attribute& a) {
        std::optional<wire::Gid> gid;
        if (m.ifa_family == AF_INET && a.data.size() == 4) gid = wire::Gid::from_ipv4(load_be<uint32_t>(a.data.data()));
        if (m.ifa_family == AF_INET6 && a.data.size() == 16) gid = wire::Gid::from_bytes(a.data.data());
        if (a.type == IFA_LOCAL && gid) local = gid;
        if (a.type == IFA_ADDRESS && gid) address = gid;
    });
    const auto gid = local ? local : address;
    if (!gid || (of_vlan && gid->is_link_local())) return;
    const unsigned prefix = m.ifa_prefixlen + (gid->is_ipv4_mapped() ? 96u : 0u);
    info.addresses.push_back({*gid, prefix, of_vlan ? vlan->vid : wire::kNoVlan});
}

bool dump(int socket, uint16_t type, InterfaceInfo& info) {
    struct {
        nlmsghdr header;
        rtgenmsg body;
    } request{};
    request.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtgenmsg));
    request.header.nlmsg_type = type;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.rtgen_family = AF_UNSPEC;
    if (::send(socket, &request, request.header.nlmsg_len, 0) < 0) return false;
    alignas(nlmsghdr) std::array<std::byte, 65536> buffer;
    for (;;) {
        const ssize_t n = ::recv(socket, buffer.data(), buffer.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        if (!take_messages({buffer.data(), static_cast<size_t>(n)}, info)) return true;
    }
}

}  // namespace

bool take_messages(std::span<const std::byte> bytes, InterfaceInfo& info) {
    while (bytes.size() >= sizeof(nlmsghdr)) {
        nlmsghdr head;
        std::memcpy(&head, bytes.data(), sizeof head);
        if (head.nlmsg_len < sizeof head || head.nlmsg_len > bytes.size()) return true;
        if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR) return false;
        const auto body = bytes.subspan(NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN);
        if (head.nlmsg_type == RTM_NEWLINK) take_link(body, info);
        if (head.nlmsg_type == RTM_NEWADDR) take_address(body, info);
        bytes = bytes.subspan(std::min<size_t>(bytes.size(), NLMSG_ALIGN(head.nlmsg_len)));
    }
    return true;
}

std::optional<InterfaceInfo> read_interface(const std::string& name) {
    return read_interface(if_nametoindex(name.c_str()));
}

std::optional<InterfaceInfo> read_interface(uint32_t index) {
    InterfaceInfo info;
    info.index = index;
    if (info.index == 0) return std::nullopt;
    const UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket || !dump(socket.get(), RTM_GETLINK, info) || !dump(socket.get(), RTM_GETADDR, info))
        return std::nullopt;
    if (info.name.empty()) return std::nullopt;
    info.speed_mbps = link_speed(info.name);
    return info;
}

bool interface_is_gone(uint32_t index) {
    char name[IFNAMSIZ];
    return if_indextoname(index, name) == nullptr && errno == ENXIO;
}

}  // namespace rocemu::control
