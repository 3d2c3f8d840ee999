// SPDX-License-Identifier: BSD-3-Clause
// Connections of rdma_cm ids: connect, accept, reject, disconnect, notify. UD ids ask for and answer with a QP number
// (SIDR) by the same commands. Read rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_disconnect(3).
#include <algorithm>
#include <cerrno>

#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/services/cm_service_parts.h"
#include "control/services/xrc_service.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kEventCommEst = 4;  // IBV_EVENT_COMM_EST
constexpr uint8_t kMaxRetries = 7;

std::span<const std::byte> private_data(const abi::CmConnParam& p) {
    return {reinterpret_cast<const std::byte*>(p.private_data), p.private_data_len};
}

// A QP number goes out to a peer: it is one of the caller's own, an XRC target that it has a handle of, or 0 where the
// QP comes later.
bool may_offer(const Session& session, uint32_t qpn) {
    return qpn == 0 || session.qps.contains(qpn) || find_target(session, qpn) != nullptr;
}

cm::Path path_of(const Device& device, const CmIdObject& object) {
    cm::Path path;
    path.port = *object.device;
    path.network = device.cm_network(object.local_gid);
    path.local_gid = object.local_gid;
    path.remote_gid = object.remote_gid;
    path.traffic_class = object.traffic_class;
    return path;
}

cm::Target target_of(const CmIdObject& object) {
    cm::Target target;
    target.port_space = object.port_space;
    target.destination_port = object.destination.port;
    target.ip.ip_version = cm::ip_version_of(object.source.address);
    target.ip.source_port = object.source.port;
    target.ip.source = object.source.address;
    target.ip.destination = object.destination.address;
    return target;
}

cm::Result<cm::CmId> connect(Call& call, const CmIdObject& object, const abi::CmConnParam& p) {
    cm::ConnectParams c;
    const Device& device = *call.control.devices[*object.device];
    c.target = target_of(object);
    c.path = path_of(device, object);
    c.local_ca_guid = device.node_guid();
    c.transport = *transport_of(object);  // no datagrams: see ask
    c.local_qpn = p.qp_num;
    c.starting_psn = object.starting_psn;
    c.responder_resources = p.responder_resources;
    c.initiator_depth = p.initiator_depth;
    c.flow_control = p.flow_control != 0;
    c.retry_count = std::min(p.retry_count, kMaxRetries);
    c.rnr_retry_count = std::min(p.rnr_retry_count, kMaxRetries);
    c.srq = p.srq != 0;
    c.path_mtu = device.active_mtu();
    c.private_data = private_data(p);
    return call.control.cm->manager().connect(EventLoop::now(), call.session->id, c);
}

cm::Result<cm::CmId> ask(Call& call, const CmIdObject& object, const abi::CmConnParam& p) {
    cm::SidrRequestParams s;
    s.target = target_of(object);
    s.path = path_of(*call.control.devices[*object.device], object);
    s.private_data = private_data(p);
    return call.control.cm->manager().sidr_request(EventLoop::now(), call.session->id, s);
}

cm::Status accept(Call& call, const CmIdObject& object, const abi::CmConnParam& p) {
    auto& manager = call.control.cm->manager();
    const Instant now = EventLoop::now();
    if (object.datagram) {
        cm::SidrReplyParams s;
        s.qpn = p.qp_num;
        s.qkey = p.qkey != 0 ? p.qkey : kUdpQkey;
        s.private_data = private_data(p);
        return manager.sidr_reply(now, call.session->id, object.connection, s);
    }
    cm::AcceptParams a;
    a.local_qpn = p.qp_num;
    a.starting_psn = object.starting_psn;
    a.responder_resources = p.responder_resources;
    a.initiator_depth = p.initiator_depth;
    a.flow_control = p.flow_control != 0;
    a.rnr_retry_count = std::min(p.rnr_retry_count, kMaxRetries);
    a.srq = p.srq != 0;
    a.private_data = private_data(p);
    return manager.accept(now, call.session->id, object.connection, a);
}

template <typename Reply>
void finish(Call& call, cm::Status status) {
    if (status == cm::Status::Ok)
        call.reply.send(Reply{});
    else
        call.reply.fail(errno_of(status));
    call.control.cm->run();
}

}  // namespace

void handle(Call& call, const abi::CmConnectRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (object->stage != CmStage::RouteResolved || !may_offer(*call.session, request.param.qp_num))
        return call.reply.fail(EINVAL);
    const auto made = object->datagram ? ask(call, *object, request.param) : connect(call, *object, request.param);
    if (!made.ok()) return call.reply.fail(errno_of(made.status));
    call.control.cm->attach(*call.session, request.id, made.value);
    object->stage = CmStage::Connected;
    finish<abi::CmConnectReply>(call, cm::Status::Ok);
}

void handle(Call& call, const abi::CmAcceptRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    auto& manager = call.control.cm->manager();
    if (request.param.valid == 0) {
        // The active side has its QP in RTS: an RTU goes out.
        const auto status =
            object->connection == 0 ? cm::Status::InvalidState : manager.confirm(call.session->id, object->connection);
        return finish<abi::CmAcceptReply>(call, status);
    }
    if (object->stage != CmStage::Request || request.uid == 0 || !may_offer(*call.session, request.param.qp_num))
        return call.reply.fail(EINVAL);
    const auto status = accept(call, *object, request.param);
    if (status == cm::Status::Ok) {
        object->uid = request.uid;
        object->stage = CmStage::Connected;
    }
    finish<abi::CmAcceptReply>(call, status);
}

void handle(Call& call, const abi::CmRejectRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (object->connection == 0 || request.private_data_len > sizeof request.private_data)
        return call.reply.fail(EINVAL);
    // Zero means 28; any other reason is the connection manager's own to give.
    if (request.reason != 0 && request.reason != static_cast<uint32_t>(cm::RejectReason::ConsumerDefined))
        return call.reply.fail(EINVAL);
    const std::span<const std::byte> data{reinterpret_cast<const std::byte*>(request.private_data),
                                          request.private_data_len};
    auto& manager = call.control.cm->manager();
    const Instant now = EventLoop::now();
    finish<abi::CmRejectReply>(
        call, object->datagram ? manager.sidr_reply(now, call.session->id, object->connection,
                                                    {.status = cm::SidrStatus::RejectedByService, .private_data = data})
                               : manager.reject(now, call.session->id, object->connection, {.private_data = data}));
}

void handle(Call& call, const abi::CmDisconnectRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (object->connection == 0) return call.reply.fail(EINVAL);
    // One that is over already is disconnected: nothing to do, and no error.
    const auto status = call.control.cm->manager().disconnect(EventLoop::now(), call.session->id, object->connection);
    finish<abi::CmDisconnectReply>(call, status == cm::Status::InvalidState ? cm::Status::Ok : status);
}

void handle(Call& call, const abi::CmNotifyRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (object->connection == 0) return call.reply.fail(EINVAL);
    if (request.event != kEventCommEst) return finish<abi::CmNotifyReply>(call, cm::Status::Ok);
    const auto status = call.control.cm->manager().notify_established(call.session->id, object->connection);
    finish<abi::CmNotifyReply>(call, status == cm::Status::InvalidState ? cm::Status::Ok : status);
}

}  // namespace rocemu::control
