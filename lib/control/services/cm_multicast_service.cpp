// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of rdma_cm ids: the membership and the address handle by which it is used. The QP is attached by
// the application (ibv_attach_mcast). Read rdma_join_multicast(3).
#include <algorithm>
#include <cerrno>

#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/services/cm_service_parts.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint32_t kSendOnly = 1;  // the highest join flag there is

}  // namespace

void handle(Call& call, const abi::CmJoinRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    const auto group = endpoint_of(request.address);
    const Device* device = cm_device(call, *object);
    if (!group || !group->set || device == nullptr || request.flags > kSendOnly || request.uid == 0)
        return call.reply.fail(EINVAL);
    // A group of the other family cannot be reached from this id's address.
    if (!group->address.is_multicast() || group->address.is_ipv4_mapped() != object->source.address.is_ipv4_mapped())
        return call.reply.fail(EINVAL);
    auto& tables = call.session->cm;
    if (tables.memberships.size() >= static_cast<size_t>(call.control.config.limits.max_cm_ids))
        return call.reply.fail(ENOMEM);
    const auto number = tables.membership_ids.take();
    if (!number) return call.reply.fail(ENOMEM);
    CmMembership membership;
    membership.id = request.id;
    membership.serial = call.control.cm->next_serial();
    membership.uid = request.uid;
    tables.memberships.emplace(*number, membership);

    abi::CmJoinReply reply;
    reply.id = *number;
    call.reply.send(reply);

    cm::Path path;
    path.port = *object->device;
    path.network = device->cm_network(group->address);
    path.local_gid = object->local_gid.is_zero() ? object->source.address : object->local_gid;
    path.remote_gid = group->address;
    path.traffic_class = object->traffic_class;
    CmPendingEvent event;
    event.number = *number;
    event.serial = membership.serial;
    event.membership = true;
    event.record.uid = request.uid;
    event.record.id = request.id;
    event.record.event = cm_event::kMulticastJoin;
    event.record.datagram = 1;
    event.record.conn.qp_num = kMulticastQpn;
    event.record.conn.qkey = kUdpQkey;
    event.record.ah = address_handle(*device, path);
    call.control.cm->deliver(*call.session, *object, event);
}

void handle(Call& call, const abi::CmLeaveRequest& request) {
    const auto& tables = call.session->cm;
    const auto membership = tables.memberships.find(request.id);
    if (membership == tables.memberships.end()) return call.reply.fail(ENOENT);
    const auto object = tables.objects.find(membership->second.id);
    const uint32_t channel = object == tables.objects.end() ? 0 : object->second.channel;
    abi::CmLeaveReply reply;
    reply.events_reported = call.control.cm->leave(*call.session, request.id);
    reply.withdrawn = withdrawn(*call.session, channel);
    call.reply.send(reply);
}

}  // namespace rocemu::control
