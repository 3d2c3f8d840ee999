// SPDX-License-Identifier: BSD-3-Clause
// CmService: wire, clock and lifetimes. From lib/cm's events to those of librdmacm: cm_events.cpp.
#include "control/cm_service.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <vector>

#include "control/control.h"
#include "net/address.h"
#include "wire/build.h"
#include "wire/dest_qp.h"
#include "wire/icrc.h"

namespace rocemu::control {
namespace {

uint64_t entropy() {
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, 0) != sizeof value) value = static_cast<uint64_t>(EventLoop::now() - Instant{});
    return value;
}

cm::Config config_of(const config::Config& config) {
    cm::Config c;
    c.max_owners = static_cast<uint32_t>(config.limits.max_sessions);
    c.max_connections = static_cast<uint32_t>(config.limits.max_cm_connections);
    c.max_bindings = 1u << 16;
    c.event_capacity = 1024;
    c.seed = entropy();
    return c;
}

net::RoceVersion version_of(wire::NetworkType network) {
    return network == wire::NetworkType::RoceV1 ? net::RoceVersion::V1 : net::RoceVersion::V2;
}

}  // namespace

int errno_of(cm::Status status) {
    switch (status) {
        case cm::Status::Ok:
            return 0;
        case cm::Status::NotFound:
            return ENOENT;
        case cm::Status::InvalidState:
        case cm::Status::InvalidArgument:
            return EINVAL;
        case cm::Status::NoResources:
        case cm::Status::QuotaExceeded:
            return ENOMEM;
        case cm::Status::AddressInUse:
            return EADDRINUSE;
        case cm::Status::PermissionDenied:
            return EACCES;
    }
    return EINVAL;
}

CmService::CmService(Control& control)
    : control_(control), manager_(config_of(control.config)), random_(entropy() | 1) {}

uint32_t CmService::random_psn() {
    random_ ^= random_ << 13;  // xorshift64: only has to differ from connection to connection
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<uint32_t>(random_ >> 20) & 0xffffff;
}

// ---- the wire

void CmService::receive(const engine::ReceivedMad& mad) {
    if (mad.device >= control_.devices.size()) return;
    cm::RxMad rx;
    rx.path.port = mad.device;
    rx.path.network = mad.network;
    rx.path.local_gid = mad.local;
    rx.path.remote_gid = mad.remote;
    rx.path.pkey = mad.pkey;
    rx.path.traffic_class = mad.traffic_class & 0xfc;
    rx.local_ca_guid = control_.devices[mad.device]->node_guid();
    rx.source_qpn = mad.source_qpn;
    rx.mad = mad.mad;
    manager_.handle_mad(EventLoop::now(), rx);
    run();
}

// Whatever cannot be sent is lost: the connection manager repeats its requests, and its peers theirs.
void CmService::send(const cm::TxMad& mad) {
    Device& device = *control_.devices[mad.path.port];
    const auto sgid_index = device.gids().find(mad.path.local_gid, version_of(mad.path.network));
    if (!sgid_index) return;
    net::AddressRequest request;
    request.is_global = true;
    request.dgid = mad.path.remote_gid;
    request.sgid_index = *sgid_index;
    request.flow_label = mad.path.flow_label;
    request.traffic_class = mad.path.traffic_class;
    request.hop_limit = mad.path.hop_limit;
    request.sl = mad.path.sl;
    request.connected = false;
    request.local_qpn = cm::kGsiQpn;
    request.remote_qpn = mad.remote_qpn;
    wire::AddressVector route;
    route.src_mac = device.mac();
    if (net::assemble(device.gids(), request, route) != net::AddressError::None) return;
    const uint32_t psn = mad_psn_++ & 0xffffff;
    control_.resolver.resolve(
        device, route.dst_gid, [this, route, mad, psn](int error, const wire::MacAddress& mac) mutable {
            if (error != 0) return;
            route.dst_mac = mac;
            wire::Bth bth;
            bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
            bth.pkey = mad.path.pkey;
            bth.dest_qp = mad.remote_qpn;
            bth.psn = psn;
            wire::ExtHeaders ext;
            ext.deth = {.qkey = mad.qkey, .src_qp = cm::kGsiQpn};
            std::array<std::byte, wire::kMaxHeaders + cm::kMadSize + wire::kIcrcSize> frame;
            const wire::HeaderTemplate headers(route);
            size_t n = headers.build(frame.data(), bth, ext, cm::kMadSize, static_cast<uint16_t>(psn));
            std::copy(mad.mad.begin(), mad.mad.end(), frame.begin() + static_cast<ptrdiff_t>(n));
            n += cm::kMadSize;
            const std::span<const std::byte> l3(frame.data() + headers.l3_offset(), n - headers.l3_offset());
            wire::store_icrc(frame.data() + n, wire::icrc_of_packet(l3, route.network));
            n += wire::kIcrcSize;
            // From the shard that answers for QP 1.
            control_.shards.submit(
                wire::shard_of_qpn(cm::kGsiQpn, control_.shards.size()),
                [frame, n, id = mad.path.port](engine::Shard& shard) {
                    shard.send_mad(id, {frame.data(), n});
                    return true;
                },
                [] {});
        },
        Resolver::For::Mad);
}

void CmService::run() {
    cm::Event event;
    while (manager_.poll_event(event)) on_event(event);
    cm::TxMad mad;
    while (manager_.poll_transmit(mad)) send(mad);
}

void CmService::tick(Instant now) {
    while (manager_.next_deadline() <= now) {
        manager_.handle_timeout(now);
        run();
    }
}

// ---- sessions

bool CmService::admit(Session& session) {
    if (session.cm.known) return true;
    cm::OwnerLimits limits;
    limits.max_connections = limits.max_bindings = static_cast<uint32_t>(control_.config.limits.max_cm_ids);
    limits.privileged_ports = session.peer.uid == 0;  // as for sockets: ports below 1024
    session.cm.known = manager_.add_owner(session.id, limits) == cm::Status::Ok;
    return session.cm.known;
}

void CmService::forget(Session& session) {
    std::vector<uint32_t> channels;
    for (const auto& [number, channel] : session.cm.channels) channels.push_back(number);
    for (const uint32_t number : channels) close_channel(session, number);
    if (session.cm.known) manager_.remove_owner(EventLoop::now(), session.id);
    session.cm.known = false;
    run();
}

void CmService::on_closed(uint32_t session_id, uint32_t channel) {
    const auto it = control_.sessions.find(session_id);
    if (it == control_.sessions.end() || it->second->ending) return;
    close_channel(*it->second, channel);
    run();
}

void CmService::close_channel(Session& session, uint32_t channel) {
    CmTables& cm = session.cm;
    const auto it = cm.channels.find(channel);
    if (it == cm.channels.end()) return;
    // First what each id would have to be looked for in.
    it->second->clear();
    std::erase_if(cm.memberships, [&](const auto& membership) {
        if (cm.objects.at(membership.second.id).channel != channel) return false;
        cm.membership_ids.give_back(membership.first);
        return true;
    });
    std::vector<uint32_t> ids;
    for (const auto& [number, object] : cm.objects)
        if (object.channel == channel) ids.push_back(number);
    // A listener takes unanswered requests of its own with it.
    for (const uint32_t number : ids) {
        if (cm.objects.contains(number)) destroy(session, number);
        run();  // each may owe its peer a MAD, and the manager keeps a bounded number
    }
    cm.channels.erase(channel);
    cm.channel_ids.give_back(channel);
}

// ---- ids

CmIdObject* CmService::create(Session& session, uint32_t channel, uint32_t* number) {
    if (session.cm.objects.size() >= static_cast<size_t>(control_.config.limits.max_cm_ids)) return nullptr;
    const auto id = session.cm.ids.take();
    if (!id) return nullptr;
    CmIdObject& object = session.cm.objects[*id];
    object.channel = channel;
    object.serial = next_serial();
    object.starting_psn = random_psn();
    *number = *id;
    return &object;
}

CmIdObject* CmService::find(uint32_t session_id, uint32_t id, uint64_t serial) {
    const auto session = control_.sessions.find(session_id);
    if (session == control_.sessions.end() || session->second->ending) return nullptr;
    auto& objects = session->second->cm.objects;
    const auto it = objects.find(id);
    return it == objects.end() || it->second.serial != serial ? nullptr : &it->second;
}

cm::Status CmService::listen(Session& session, uint32_t id, uint32_t backlog) {
    const CmIdObject& object = session.cm.objects.at(id);
    const auto status = manager_.listen(session.id, object.binding, backlog);
    if (status == cm::Status::Ok) listeners_[object.serial] = {session.id, id};
    return status;
}

void CmService::attach(Session& session, uint32_t id, cm::CmId connection) {
    session.cm.objects.at(id).connection = connection;
    by_connection_[connection] = {session.id, id};
}

uint32_t CmService::leave(Session& session, uint32_t id) {
    const auto it = session.cm.memberships.find(id);
    if (it == session.cm.memberships.end()) return 0;
    const CmMembership membership = it->second;
    const auto object = session.cm.objects.find(membership.id);
    if (object != session.cm.objects.end())
        session.cm.channels.at(object->second.channel)->extract([&](const CmPendingEvent& e) {
            return e.serial == membership.serial;
        });
    session.cm.memberships.erase(it);
    session.cm.membership_ids.give_back(id);
    return membership.events_reported;
}

uint32_t CmService::destroy(Session& session, uint32_t id) {
    const auto it = session.cm.objects.find(id);
    if (it == session.cm.objects.end()) return 0;
    std::vector<uint32_t> memberships;
    for (const auto& [number, membership] : session.cm.memberships)
        if (membership.id == id) memberships.push_back(number);
    for (const uint32_t number : memberships) leave(session, number);

    const CmIdObject object = it->second;
    session.cm.objects.erase(it);
    session.cm.ids.give_back(id);
    session.cm.to_resolve.erase(object.serial);
    listeners_.erase(object.serial);
    // What nobody will fetch any more: its events, and the requests among them that only these events name.
    const auto events = session.cm.channels.at(object.channel)->extract([&](const CmPendingEvent& e) {
        return e.serial == object.serial || e.record.id == id;
    });
    for (const auto& event : events)
        if (event.record.id != id) destroy(session, event.record.id);
    const Instant now = EventLoop::now();
    if (object.connection != 0) {
        by_connection_.erase(object.connection);
        manager_.destroy(now, session.id, object.connection);
    }
    if (object.binding != 0) manager_.unbind(now, session.id, object.binding);
    return object.events_reported;
}

}  // namespace rocemu::control
