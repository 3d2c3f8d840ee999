// SPDX-License-Identifier: BSD-3-Clause
// Attaching datagram QPs to multicast groups. Read IBTA volume 1, 11.3.1 and the ibv_attach_mcast man page.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "control/device_attributes.h"
#include "control/log.h"
#include "control/services/services.h"

namespace rocemu::control {
namespace {

wire::Gid gid_of(const uint8_t (&raw)[16]) {
    wire::Gid gid;
    std::memcpy(gid.raw.data(), raw, sizeof raw);
    return gid;
}

}  // namespace

void handle(Call& call, const abi::AttachMcastRequest& request) {
    Control& control = call.control;
    const auto it = call.session->qps.find(request.qpn);
    const wire::Gid group = gid_of(request.gid);
    if (it == call.session->qps.end() || it->second.type != QpType::Ud || !group.is_multicast())
        return call.reply.fail(EINVAL);
    QpObject& qp = it->second;
    // Attached twice is attached once (ibv_attach_mcast(3) knows no count).
    if (std::find(qp.groups.begin(), qp.groups.end(), group) != qp.groups.end())
        return call.reply.send(abi::AttachMcastReply{});
    if (qp.groups.size() >= kMaxGroupsPerQp) return call.reply.fail(ENOMEM);
    Device& device = *control.devices[qp.device];
    if (const int error = device.memberships().join(group, call.session->id)) {
        log::info("{}: attach_mcast {}: {}", call.session->name(), wire::to_string(group), std::strerror(error));
        return call.reply.fail(error);
    }
    qp.groups.push_back(group);
    control.call(
        call.session, qp.shard,
        [qpn = request.qpn, group](engine::Shard& shard) {
            shard.attach_group(qpn, group);
            return true;
        },
        [reply = call.reply]() mutable { reply.send(abi::AttachMcastReply{}); });
}

void handle(Call& call, const abi::DetachMcastRequest& request) {
    Control& control = call.control;
    const auto it = call.session->qps.find(request.qpn);
    const wire::Gid group = gid_of(request.gid);
    if (it == call.session->qps.end() || std::erase(it->second.groups, group) == 0) return call.reply.fail(EINVAL);
    control.devices[it->second.device]->memberships().leave(group, call.session->id);
    control.call(
        call.session, it->second.shard,
        [qpn = request.qpn, group](engine::Shard& shard) {
            shard.detach_group(qpn, group);
            return true;
        },
        [reply = call.reply]() mutable { reply.send(abi::DetachMcastReply{}); });
}

}  // namespace rocemu::control
