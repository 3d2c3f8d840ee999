// SPDX-License-Identifier: BSD-3-Clause
// Addresses of rdma_cm ids: bind, listen, resolve address and route, query. The addresses are those of the devices;
// the host's own interfaces mean nothing here. Read rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3).
#include <algorithm>
#include <cerrno>

#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/services/cm_service_parts.h"

namespace rocemu::control {
namespace {

constexpr uint8_t kPacketLifetime = 16;  // 4.096 us * 2^16: what Linux assumes on Ethernet
constexpr uint8_t kHopLimit = 64;
constexpr uint32_t kMaxBacklog = 1024;
constexpr uint8_t kRate100Gbps = 16;  // enum ibv_rate

// 0 or an errno value: the id has its port afterwards.
int take_port(Call& call, CmIdObject& object, const CmEndpoint& wanted) {
    cm::BindParams params;
    params.port_space = object.port_space;
    params.address = wanted.address;
    params.port = wanted.port;
    params.reuse_address = object.reuse_address;
    params.v6_only = object.v6_only;
    params.transport = transport_of(object);
    params.cookie = object.serial;
    const auto bound = call.control.cm->manager().bind(call.session->id, params);
    if (!bound.ok()) return errno_of(bound.status);
    object.binding = bound.value.id;
    object.source = wanted;
    object.source.port = bound.value.port;
    object.source.set = true;
    object.stage = CmStage::Bound;
    return 0;
}

int bind(Call& call, CmIdObject& object, const CmEndpoint& wanted) {
    if (object.stage != CmStage::Idle) return EINVAL;
    if (!is_wildcard(wanted.address)) {
        object.device = device_of(call.control.devices, wanted.address);
        if (!object.device) return EADDRNOTAVAIL;
    }
    const int error = take_port(call, object, wanted);
    if (error != 0) object.device.reset();
    return error;
}

}  // namespace

void handle(Call& call, const abi::CmBindRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    const auto wanted = endpoint_of(request.address);
    if (!wanted || !wanted->set) return call.reply.fail(EINVAL);
    if (const int error = bind(call, *object, *wanted)) return call.reply.fail(error);
    call.reply.send(abi::CmBindReply{});
}

void handle(Call& call, const abi::CmListenRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    // Without an address it listens on all, IPv4 ones too, on a port that the system chooses.
    if (object->stage == CmStage::Idle)
        if (const int error = bind(call, *object, CmEndpoint{})) return call.reply.fail(error);
    if (object->stage != CmStage::Bound) return call.reply.fail(EINVAL);
    const uint32_t backlog = request.backlog == 0 ? kMaxBacklog : std::min(request.backlog, kMaxBacklog);
    const auto status = call.control.cm->listen(*call.session, request.id, backlog);
    if (status != cm::Status::Ok) return call.reply.fail(errno_of(status));
    object->stage = CmStage::Listening;
    call.reply.send(abi::CmListenReply{});
}

void handle(Call& call, const abi::CmResolveAddressRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    const auto source = endpoint_of(request.source), destination = endpoint_of(request.destination);
    if (!source || !destination || !destination->set || is_wildcard(destination->address))
        return call.reply.fail(EINVAL);
    if (source->set && object->stage == CmStage::Idle)
        if (const int error = bind(call, *object, *source)) return call.reply.fail(error);
    if (object->stage != CmStage::Idle && object->stage != CmStage::Bound) return call.reply.fail(EINVAL);
    // DEVIATION: an id whose address was not found is resolved again after its event was fetched. Linux does it at once,
    // with one more event each time, without a bound.
    if (object->address_event) return call.reply.fail(EBUSY);

    auto& devices = call.control.devices;
    auto route = route_to(devices, destination->address, object->device);
    if (!route) return call.reply.fail(ENETUNREACH);
    // Bound to an address: that one, if the peer can be reached from it at all.
    if (object->source.set && !is_wildcard(object->source.address) && !is_loopback(object->source.address)) {
        if (object->source.address.is_ipv4_mapped() != route->source.is_ipv4_mapped()) return call.reply.fail(EINVAL);
        route->source = object->source.address;
    }
    CmEndpoint local;
    local.address = is_loopback(destination->address) ? destination->address : route->source;
    if (object->binding == 0) {
        if (const int error = take_port(call, *object, local)) return call.reply.fail(error);
    } else {
        object->source.address = local.address;
    }
    object->device = route->device;
    object->destination = *destination;
    object->local_gid = route->source;
    object->remote_gid = route->destination;
    call.reply.send(abi::CmResolveAddressReply{});
    call.control.cm->resolve(*call.session, request.id);
}

void handle(Call& call, const abi::CmResolveRouteRequest& request) {
    CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    if (object->stage != CmStage::AddressResolved) return call.reply.fail(EINVAL);
    object->stage = CmStage::RouteResolved;
    call.reply.send(abi::CmResolveRouteReply{});
    call.control.cm->deliver(*call.session, request.id, cm_event::kRouteResolved, 0);
}

void handle(Call& call, const abi::CmQueryRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    abi::CmQueryReply r;
    r.source = address_of(object->source);
    r.destination = address_of(object->destination);
    r.port_space = static_cast<uint16_t>(object->port_space);
    const Device* device = cm_device(call, *object);
    if (device == nullptr) {
        call.reply.send(r);
        return;
    }
    r.node_guid = device->node_guid();
    r.port_num = 1;
    r.pkey = 0xffff;
    const wire::Gid& local = object->local_gid.is_zero() ? object->source.address : object->local_gid;
    std::copy(local.raw.begin(), local.raw.end(), r.sgid);
    std::copy(object->remote_gid.raw.begin(), object->remote_gid.raw.end(), r.dgid);
    r.num_paths = object->stage >= CmStage::RouteResolved ? 1 : 0;
    r.hop_limit = kHopLimit;
    r.traffic_class = object->traffic_class;
    r.mtu = device->active_mtu();
    r.rate = kRate100Gbps;
    r.packet_lifetime = kPacketLifetime;
    call.reply.send(r);
}

}  // namespace rocemu::control
