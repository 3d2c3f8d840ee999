// SPDX-License-Identifier: BSD-3-Clause
// Event channels and ids of the rdma_cm device: open, create, destroy, migrate, options, events.
// Read rdma_create_id(3), rdma_migrate_id(3), rdma_set_option(3).
#include <cerrno>
#include <cstring>
#include <utility>

#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/services/cm_service_parts.h"

namespace rocemu::control {
namespace {

constexpr uint8_t kQptRc = 2, kQptUc = 3, kQptUd = 4, kQptXrcSend = 9, kQptXrcRecv = 10;
constexpr uint32_t kLevelId = 0, kLevelIb = 1;
constexpr uint32_t kOptionTos = 0, kOptionReuse = 1, kOptionAfOnly = 2, kOptionAckTimeout = 3;

std::optional<cm::PortSpace> port_space_of(uint16_t number) {
    for (const auto space : {cm::PortSpace::Tcp, cm::PortSpace::Udp, cm::PortSpace::Ib})
        if (static_cast<uint16_t>(space) == number) return space;
    return std::nullopt;
}

// 0 or an errno value.
int set_id_option(CmIdObject& object, const abi::CmSetOptionRequest& r) {
    uint32_t number = 0;
    const uint32_t size = r.option == kOptionTos || r.option == kOptionAckTimeout ? 1 : sizeof(int);
    if (r.length != size) return EINVAL;
    std::memcpy(&number, r.value, size);
    switch (r.option) {
        case kOptionTos:
            object.traffic_class = static_cast<uint8_t>(number);
            return 0;
        case kOptionReuse:
            if (object.stage != CmStage::Idle && object.stage != CmStage::Bound) return EINVAL;
            object.reuse_address = number != 0;
            return 0;
        case kOptionAfOnly:
            if (object.stage != CmStage::Idle) return EINVAL;
            object.v6_only = number != 0;
            return 0;
        case kOptionAckTimeout:
            if (number > 31) return EINVAL;
            object.ack_timeout = static_cast<uint8_t>(number);
            return 0;
        default:
            return ENOSYS;
    }
}

}  // namespace

void handle(Call& call, const abi::CmOpenChannelRequest&) {
    Session& session = *call.session;
    Control& control = call.control;
    if (call.fds.empty() || !EventOutbox::accepts(call.fds[0].get())) return call.reply.fail(EINVAL);
    if (session.cm.channels.size() >= static_cast<size_t>(control.config.limits.max_channels))
        return call.reply.fail(ENOMEM);
    if (!control.cm->admit(session)) return call.reply.fail(ENOMEM);
    const auto number = session.cm.channel_ids.take();
    if (!number) return call.reply.fail(ENOMEM);
    session.cm.channels.emplace(*number, std::make_unique<CmChannel>(control.loop, std::move(call.fds[0]),
                                                                     [&control, id = session.id, channel = *number] {
                                                                         control.cm->on_closed(id, channel);
                                                                     }));
    abi::CmOpenChannelReply reply;
    reply.channel = *number;
    call.reply.send(reply);
}

void handle(Call& call, const abi::CmCreateIdRequest& request) {
    if (!call.session->cm.channels.contains(request.channel)) return call.reply.fail(ENOENT);
    const auto space = port_space_of(request.port_space);
    if (!space) return call.reply.fail(EINVAL);
    switch (request.qp_type) {
        case kQptRc:
        case kQptUc:
        case kQptUd:
        case kQptXrcSend:
        case kQptXrcRecv:
            break;
        default:
            return call.reply.fail(EINVAL);
    }
    uint32_t number = 0;
    CmIdObject* object = call.control.cm->create(*call.session, request.channel, &number);
    if (object == nullptr) return call.reply.fail(ENOMEM);
    object->uid = request.uid;
    object->port_space = *space;
    object->qp_type = request.qp_type;
    object->datagram = request.qp_type == kQptUd;
    abi::CmCreateIdReply reply;
    reply.id = number;
    call.reply.send(reply);
}

void handle(Call& call, const abi::CmDestroyIdRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    const uint32_t channel = object->channel;
    abi::CmDestroyIdReply reply;
    reply.events_reported = call.control.cm->destroy(*call.session, request.id);
    reply.withdrawn = withdrawn(*call.session, channel);
    call.reply.send(reply);
    call.control.cm->run();
}

void handle(Call& call, const abi::CmGetEventRequest& request) {
    CmTables& tables = call.session->cm;
    const auto channel = tables.channels.find(request.channel);
    if (channel == tables.channels.end()) return call.reply.fail(ENOENT);
    const auto event = channel->second->pop();
    if (!event) return call.reply.fail(EAGAIN);
    // Events of what was destroyed are in no queue any more: the numbers are valid.
    if (event->membership) {
        // Counts for its id too, as librdmacm counts it when it is acknowledged.
        ++tables.memberships.at(event->number).events_reported;
        ++tables.objects.at(event->record.id).events_reported;
    } else {
        ++tables.objects.at(event->number).events_reported;
    }
    if (event->record.event == cm_event::kAddressResolved || event->record.event == cm_event::kAddressError)
        tables.objects.at(event->number).address_event = false;
    // A request that was fetched has left the backlog.
    if (event->record.event == cm_event::kConnectRequest) {
        CmIdObject& request_object = tables.objects.at(event->record.id);
        request_object.announced = true;
        call.control.cm->manager().request_fetched(call.session->id, request_object.connection);
    }
    call.reply.send(event->record);
}

void handle(Call& call, const abi::CmSetOptionRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (request.length > sizeof request.value) return call.reply.fail(EINVAL);
    // A path of the subnet administrator's: there is none on Ethernet, and the way follows from the addresses.
    if (request.level != kLevelId) return call.reply.fail(request.level == kLevelIb ? ENOSYS : EINVAL);
    if (const int error = set_id_option(*object, request)) return call.reply.fail(error);
    call.reply.send(abi::CmSetOptionReply{});
}

void handle(Call& call, const abi::CmMigrateRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    auto& channels = call.session->cm.channels;
    const auto to = channels.find(request.channel);
    if (to == channels.end()) return call.reply.fail(ENOENT);
    // Its events that nobody fetched go along, also those that name requests to it.
    auto events = channels.at(object->channel)->extract([&](const CmPendingEvent& e) {
        return e.serial == object->serial || (e.membership && e.record.id == request.id);
    });
    for (const auto& event : events) {
        const auto made = call.session->cm.objects.find(event.record.id);
        if (made != call.session->cm.objects.end()) made->second.channel = request.channel;
    }
    const uint32_t from = std::exchange(object->channel, request.channel);
    abi::CmMigrateReply reply;
    reply.events_reported = object->events_reported;
    reply.withdrawn = from == request.channel ? 0 : withdrawn(*call.session, from);
    for (auto& event : events) to->second->push(event);
    call.reply.send(reply);
}

}  // namespace rocemu::control
