// SPDX-License-Identifier: BSD-3-Clause
// Events of lib/cm as librdmacm knows them: numbers and statuses of <rdma/rdma_cma.h>, private data as long as the
// message has room, ids made for requests. Read rdma_get_cm_event(3).
#include <algorithm>
#include <cerrno>

#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/control.h"

namespace rocemu::control {
namespace {

abi::CmGetEventReply record_of(const cm::Event& event, const CmIdObject& object, const Device& device) {
    const cm::ConnectionInfo& info = event.info;
    abi::CmGetEventReply r;
    r.uid = object.uid;
    r.status = event.status;
    r.datagram = object.datagram;
    r.conn.qp_num = info.remote_qpn;
    r.conn.qkey = info.qkey;
    const size_t n = std::min<size_t>(event.private_data_size, sizeof r.conn.private_data - 1);
    std::transform(event.private_data.begin(), event.private_data.begin() + static_cast<ptrdiff_t>(n),
                   r.conn.private_data, [](std::byte b) { return static_cast<uint8_t>(b); });
    r.conn.private_data_len = static_cast<uint8_t>(n);
    if (object.datagram) {
        r.ah = address_handle(device, info.path);
        return r;
    }
    r.conn.srq = info.srq;
    r.conn.responder_resources = info.responder_resources;
    r.conn.initiator_depth = info.initiator_depth;
    r.conn.flow_control = info.flow_control;
    r.conn.retry_count = info.retry_count;
    r.conn.rnr_retry_count = info.rnr_retry_count;
    return r;
}

// The event's number and, where librdmacm wants another one, its status.
uint32_t number_of(const cm::Event& event, int32_t* status) {
    switch (event.kind) {
        case cm::EventKind::ConnectRequest:
        case cm::EventKind::SidrRequest:
            return cm_event::kConnectRequest;
        case cm::EventKind::ConnectResponse:
            return cm_event::kConnectResponse;
        case cm::EventKind::Established:
            return cm_event::kEstablished;
        case cm::EventKind::Rejected:
            return cm_event::kRejected;
        case cm::EventKind::Unreachable:
            return cm_event::kUnreachable;
        case cm::EventKind::Disconnected:
            *status = 0;  // an unanswered DREQ ends the connection as well as an answered one
            return cm_event::kDisconnected;
        case cm::EventKind::TimewaitExit:
            return cm_event::kTimewaitExit;
        case cm::EventKind::SidrResult:
            return event.status == 0 ? cm_event::kEstablished : cm_event::kUnreachable;
    }
    return cm_event::kConnectError;
}

CmEndpoint endpoint(const wire::Gid& address, uint16_t port) {
    return {.address = address, .port = port, .set = true};
}

}  // namespace

void CmService::deliver(Session& session, const CmIdObject& object, CmPendingEvent event) {
    const auto channel = session.cm.channels.find(object.channel);
    if (channel != session.cm.channels.end()) channel->second->push(std::move(event));
}

void CmService::deliver(Session& session, uint32_t id, uint32_t number, int32_t status) {
    const CmIdObject& object = session.cm.objects.at(id);
    CmPendingEvent event;
    event.number = id;
    event.serial = object.serial;
    event.record.uid = object.uid;
    event.record.id = id;
    event.record.event = number;
    event.record.status = status;
    deliver(session, object, std::move(event));
}

// A request gets an id of the listener's session, of which the application hears by the event.
void CmService::on_request(const cm::Event& event) {
    const auto place = listeners_.find(event.cookie);
    const auto session_it =
        place == listeners_.end() ? control_.sessions.end() : control_.sessions.find(place->second.session);
    if (session_it == control_.sessions.end()) {
        manager_.destroy(EventLoop::now(), event.owner, event.id);
        return;
    }
    Session& session = *session_it->second;
    const uint32_t channel = session.cm.objects.at(place->second.id).channel;
    uint32_t number = 0;
    CmIdObject* object = create(session, channel, &number);
    if (object == nullptr) {
        manager_.reject(EventLoop::now(), event.owner, event.id, {.reason = cm::RejectReason::NoResources});
        manager_.destroy(EventLoop::now(), event.owner, event.id);
        return;
    }
    const CmIdObject& listener = session.cm.objects.at(place->second.id);
    object->port_space = listener.port_space;
    object->qp_type = listener.qp_type;
    object->datagram = listener.datagram;
    object->traffic_class = listener.traffic_class;
    object->ack_timeout = listener.ack_timeout;
    object->stage = CmStage::Request;
    object->announced = false;
    object->device = event.info.path.port;
    object->source = endpoint(event.info.ip.destination, event.info.service_port);
    object->destination = endpoint(event.info.ip.source, event.info.ip.source_port);
    object->local_gid = event.info.path.local_gid;
    object->remote_gid = event.info.path.remote_gid;
    attach(session, number, event.id);

    CmPendingEvent pending;
    pending.record = record_of(event, listener, *control_.devices[event.info.path.port]);
    pending.record.event = cm_event::kConnectRequest;
    pending.record.id = number;
    pending.number = place->second.id;
    pending.serial = listener.serial;
    deliver(session, listener, std::move(pending));
}

void CmService::on_event(const cm::Event& event) {
    if (event.kind == cm::EventKind::ConnectRequest || event.kind == cm::EventKind::SidrRequest)
        return on_request(event);
    const auto place = by_connection_.find(event.id);
    if (place == by_connection_.end()) return;
    const auto it = control_.sessions.find(place->second.session);
    if (it == control_.sessions.end()) return;
    Session& session = *it->second;
    CmIdObject& object = session.cm.objects.at(place->second.id);
    // An id that the application does not know yet: it hears of the end when it accepts.
    if (object.uid == 0) return;
    if (event.kind == cm::EventKind::Disconnected) {
        if (object.disconnected) return;  // both ends asked at the same time
        object.disconnected = true;
    }
    CmPendingEvent pending;
    pending.record = record_of(event, object, *control_.devices[event.info.path.port]);
    pending.record.event = number_of(event, &pending.record.status);
    pending.record.id = place->second.id;
    pending.number = place->second.id;
    pending.serial = object.serial;
    deliver(session, object, std::move(pending));
}

}  // namespace rocemu::control
