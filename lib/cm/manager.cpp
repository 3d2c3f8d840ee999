// SPDX-License-Identifier: BSD-3-Clause
// Owners, ports, commands and polling of the CmManager. What arrives from the wire is in manager_receive.cpp.
#include "cm/manager.h"

namespace rocemu::cm {

CmManager::CmManager(const Config& config)
    : config_(config),
      out_(config.transmit_capacity, config.event_capacity),
      owners_(config.max_owners, config.seed ^ 5),
      bindings_(config_),
      table_(config_) {}

// ---- owners and ports

Status CmManager::add_owner(OwnerId owner, const OwnerLimits& limits) {
    return owners_.add(owner, limits);
}

void CmManager::remove_owner(Instant now, OwnerId id) {
    Owner* owner = owners_.find(id);
    if (owner == nullptr) return;
    // Most owners have nothing left, and the tables are large.
    if (owner->connections != 0)
        table_.for_each([&](Connection& c) {
            if (c.owner() == id && !c.is_orphan()) destroy(now, c);
        });
    if (owner->bindings != 0)
        bindings_.for_each([&](Binding& b) {
            if (b.owner == id) bindings_.unbind(b);
        });
    owners_.remove(*owner);
}

Result<CmManager::Bound> CmManager::bind(OwnerId id, const BindParams& params) {
    Owner* owner = owners_.find(id);
    if (owner == nullptr) return {Status::NotFound};
    if (owner->bindings >= owner->limits.max_bindings) return {Status::QuotaExceeded};
    if (params.port != 0 && params.port < 1024 && !owner->limits.privileged_ports) return {Status::PermissionDenied};
    const auto bound = bindings_.bind(id, params);
    if (!bound.ok()) return {bound.status};
    ++owner->bindings;
    return {Status::Ok, {bound.value->id, bound.value->params.port}};
}

Status CmManager::listen(OwnerId owner, BindingId id, uint32_t backlog) {
    Binding* binding = bindings_.find(id);
    if (binding == nullptr || binding->owner != owner) return Status::NotFound;
    return bindings_.listen(*binding, backlog);
}

Status CmManager::unbind(Instant now, OwnerId id, BindingId binding_id) {
    Binding* binding = bindings_.find(binding_id);
    if (binding == nullptr || binding->owner != id) return Status::NotFound;
    if (binding->pending > 0)
        table_.for_each([&](Connection& c) {
            if (c.in_backlog() && c.binding() == binding_id) destroy(now, c);
        });
    bindings_.unbind(*binding);
    if (Owner* owner = owners_.find(id)) --owner->bindings;
    return Status::Ok;
}

// ---- connections

Connection* CmManager::find(OwnerId owner, CmId id) {
    Connection* c = table_.find(id);
    return c != nullptr && c->owner() == owner && !c->is_orphan() ? c : nullptr;
}

Result<Connection*> CmManager::allocate(OwnerId id, uint64_t local_ca_guid) {
    Owner* owner = owners_.find(id);
    if (owner == nullptr) return {Status::NotFound};
    if (owner->connections >= owner->limits.max_connections) return {Status::QuotaExceeded};
    // However many each wants: n owners get 1/(n + 1) of the table each, and as much is left for the next one.
    const uint32_t left = config_.max_connections - owned_;
    if (owner->connections != 0 && owner->connections >= left) return {Status::QuotaExceeded};
    Connection* c = table_.allocate(id, local_ca_guid, out_.counters);
    if (c == nullptr) return {Status::NoResources};
    ++owner->connections;
    ++owned_;
    return {Status::Ok, c};
}

void CmManager::leave_backlog(Connection& c) {
    if (!c.in_backlog()) return;
    c.leave_backlog();
    if (Binding* binding = bindings_.find(c.binding())) --binding->pending;
}

void CmManager::destroy(Instant now, Connection& c) {
    leave_backlog(c);
    if (Owner* owner = owners_.find(c.owner())) --owner->connections;
    --owned_;
    c.abandon(now, out_);
    table_.settle(c);
}

template <typename Command>
Status CmManager::run(OwnerId owner, CmId id, Command command) {
    Connection* c = find(owner, id);
    if (c == nullptr) return Status::NotFound;
    const Status status = command(*c);
    table_.settle(*c);
    return status;
}

Result<CmId> CmManager::connect(Instant now, OwnerId owner, const ConnectParams& params) {
    const auto c = allocate(owner, params.local_ca_guid);
    if (!c.ok()) return {c.status};
    const CmId id = c.value->id();
    const Status status = c.value->connect(now, params, out_);
    if (status != Status::Ok) {
        destroy(now, *c.value);  // closed: nothing is sent
        return {status};
    }
    table_.settle(*c.value);
    return {Status::Ok, id};
}

Result<CmId> CmManager::sidr_request(Instant now, OwnerId owner, const SidrRequestParams& params) {
    const auto c = allocate(owner, 0);
    if (!c.ok()) return {c.status};
    const CmId id = c.value->id();
    const Status status = c.value->sidr_request(now, params, out_);
    if (status != Status::Ok) {
        destroy(now, *c.value);
        return {status};
    }
    table_.settle(*c.value);
    return {Status::Ok, id};
}

Status CmManager::confirm(OwnerId owner, CmId id, Bytes private_data) {
    return run(owner, id, [&](Connection& c) { return c.confirm(private_data, out_); });
}

Status CmManager::request_fetched(OwnerId owner, CmId id) {
    return run(owner, id, [&](Connection& c) {
        leave_backlog(c);
        return Status::Ok;
    });
}

Status CmManager::accept(Instant now, OwnerId owner, CmId id, const AcceptParams& params) {
    return run(owner, id, [&](Connection& c) {
        const Status status = c.accept(now, params, out_);
        if (status == Status::Ok) leave_backlog(c);
        return status;
    });
}

Status CmManager::notify_established(OwnerId owner, CmId id) {
    if (!out_.has_event_room()) return Status::NoResources;
    return run(owner, id, [&](Connection& c) { return c.established(out_); });
}

Status CmManager::reject(Instant now, OwnerId owner, CmId id, const RejectParams& params) {
    return run(owner, id, [&](Connection& c) {
        const Status status = c.reject(now, params, out_);
        if (status == Status::Ok) leave_backlog(c);
        return status;
    });
}

Status CmManager::disconnect(Instant now, OwnerId owner, CmId id, Bytes private_data) {
    return run(owner, id, [&](Connection& c) { return c.disconnect(now, private_data, out_); });
}

Status CmManager::sidr_reply(Instant now, OwnerId owner, CmId id, const SidrReplyParams& params) {
    return run(owner, id, [&](Connection& c) {
        const Status status = c.sidr_reply(now, params, out_);
        if (status == Status::Ok) leave_backlog(c);
        return status;
    });
}

Status CmManager::destroy(Instant now, OwnerId owner, CmId id) {
    Connection* c = find(owner, id);
    if (c == nullptr) return Status::NotFound;
    destroy(now, *c);
    return Status::Ok;
}

Result<ConnectionInfo> CmManager::info(OwnerId owner, CmId id) {
    const Connection* c = find(owner, id);
    if (c == nullptr) return {Status::NotFound};
    return {Status::Ok, c->info()};
}

// ---- time and polling

void CmManager::handle_timeout(Instant now) {
    while (table_.earliest_deadline() <= now && out_.has_event_room() && !out_.mads().full()) {
        Connection& c = table_.earliest();
        c.handle_timeout(now, out_);
        table_.settle(c);
    }
}

bool CmManager::poll_transmit(TxMad& out) {
    if (out_.mads().empty()) return false;
    out = out_.mads().front();
    out_.mads().pop();
    return true;
}

bool CmManager::poll_event(Event& out) {
    while (!out_.events().empty()) {
        const Event& event = out_.events().front();
        const bool wanted = find(event.owner, event.id) != nullptr;
        if (wanted) out = event;
        out_.events().pop();
        if (wanted) return true;
    }
    return false;
}

}  // namespace rocemu::cm
