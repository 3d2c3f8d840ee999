// SPDX-License-Identifier: BSD-3-Clause
// Commands of control: sessions, completion queues, QPs, addresses. They run in ShardCall::on_shard, between the steps
// of a turn; here alone the shard allocates.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "engine/shard_impl.h"
#include "wire/udp.h"

namespace rocemu::engine {

memory::KeyTable& Shard::keys() {
    return impl_->keys;
}

template <typename Change>
void Shard::Impl::change_headers(Change change) {
    for (auto& [qpn, record] : records)
        if (record->has_route) change(record->headers, record->setup.device, record->route.dst_gid);
    for (auto& [number, session] : sessions)
        session->addresses.for_each([&](AddressRecord& ah) { change(ah.headers, ah.device, ah.destination); });
}

void Shard::set_port_state(DeviceId device, const PortState& state) {
    Device& d = impl_->device(device);
    d.addresses = state.addresses;
    d.mtu = state.mtu;
    if (state.mac == d.mac) return;
    // Connections and address handles go on with the new address.
    impl_->change_headers([&](wire::HeaderTemplate& headers, DeviceId of, const wire::Gid&) {
        if (of == device) headers.replace_mac(d.mac, state.mac);
    });
    d.mac = state.mac;
    d.setup.port->set_mac(state.mac);
}

void Shard::neighbours_moved(std::span<const NeighbourMove> moves) {
    impl_->change_headers([&](wire::HeaderTemplate& headers, DeviceId device, const wire::Gid& destination) {
        const auto it = std::lower_bound(moves.begin(), moves.end(), std::tie(device, destination.raw),
                                         [](const NeighbourMove& move, const auto& key) {
                                             return std::tie(move.device, move.address.raw) < key;
                                         });
        if (it != moves.end() && it->device == device && it->address == destination) headers.set_destination(it->mac);
    });
}

bool Shard::send_raw(DeviceId device, std::span<const std::byte> bytes) {
    Device& d = impl_->device(device);
    if (!d.tx_room(1) || !d.cache.reserve(1)) return false;
    Frame frame = d.cache.take();
    if (bytes.size() > frame.room) {
        d.cache.give_back(frame);
        return false;
    }
    std::copy(bytes.begin(), bytes.end(), frame.data);  // may be none
    frame.length = static_cast<uint32_t>(bytes.size());
    d.send(frame);
    return true;
}

void Shard::send_mad(DeviceId device, std::span<const std::byte> bytes) {
    if (!send_raw(device, bytes)) return;
    auto& counters = impl_->device(device).counters;
    counters.add(stats::Counter::tx_mads);
    counters.add(stats::Counter::tx_packets);
    counters.add(stats::Counter::tx_bytes, bytes.size());
}

void Shard::set_tap(DeviceId device, CaptureTap* tap) {
    impl_->device(device).tap = tap;
}

void Shard::add_session(const SessionSetup& setup) {
    auto& session = impl_->sessions[setup.id];
    session = std::make_unique<Session>(setup);
    impl_->session_list.push_back(session.get());
    impl_->waiter.watch(setup.wake_fd);
    impl_->mover.add_space(setup.space);
}

void Shard::abandon_payload(SessionId id) {
    impl_->mover.abandon(id);
}

bool Shard::remove_session(SessionId id) {
    const auto it = impl_->sessions.find(id);
    if (it == impl_->sessions.end()) return true;
    Session& session = *it->second;
    assert(session.qps == 0 && session.cqs == 0);
    // Other sessions' QPs may have jobs in its memory: they end as faults.
    impl_->mover.remove_space(id);
    impl_->waiter.unwatch(session.setup.wake_fd);
    std::erase(impl_->session_list, &session);
    impl_->scheduler.forget(session);
    impl_->sessions.erase(it);
    return true;
}

void Shard::add_xrc_domain(SessionId id) {
    SessionSetup setup;
    setup.id = id;
    impl_->sessions[id] = std::make_unique<Session>(setup);  // not in the list: nobody rings for its QPs
}

void Shard::remove_xrc_domain(SessionId id) {
    const auto it = impl_->sessions.find(id);
    if (it == impl_->sessions.end()) return;
    assert(it->second->qps == 0 && it->second->xrc_srqs.empty());
    impl_->scheduler.forget(*it->second);
    impl_->sessions.erase(it);
}

void Shard::map_region(SessionId session, uint32_t key, std::byte* local, uint64_t va, uint64_t length) {
    impl_->mover.map(session, key, local, va, length);
}

void Shard::unmap_region(SessionId session, uint32_t key) {
    impl_->mover.unmap(session, key);
}

bool Shard::payload_passed(SessionId id, uint64_t& fence) {
    if (fence == 0) fence = impl_->mover.fence(id);
    return impl_->mover.passed(id, fence);
}

bool Shard::attach_group(uint32_t qpn, const wire::Gid& group) {
    QpRecord* record = impl_->live.find(qpn);
    if (record == nullptr) return false;
    record->device->groups.join(group, *record);
    return true;
}

void Shard::detach_group(uint32_t qpn, const wire::Gid& group) {
    if (QpRecord* record = impl_->live.find(qpn)) record->device->groups.leave(group, *record);
}

void Shard::create_flow(const FlowSetup& setup) {
    impl_->device(setup.device).flows.insert(setup);
}

void Shard::destroy_flow(DeviceId device, SessionId session, uint32_t flow) {
    impl_->device(device).flows.erase(session, flow);
}

void Shard::create_ah(SessionId session, uint32_t number, const AddressRecord& record) {
    impl_->sessions.at(session)->addresses.insert(number, record);
}

void Shard::destroy_ah(SessionId session, uint32_t number) {
    impl_->sessions.at(session)->addresses.erase(number);
}

bool Shard::hurry_posted(SessionId id) {
    const Session& session = *impl_->sessions.at(id);
    impl_->live.for_each([&](QpRecord& record) {
        if (record.session != &session || record.type() != QpType::Ud || record.capture.due == kNever) return;
        record.capture.due = impl_->now;
        impl_->scheduler.activate(record);
    });
    return session.rung() || session.active_head != nullptr || session.gathers != 0;
}

void Shard::create_cq(const CqSetup& setup) {
    Session& session = *impl_->sessions.at(setup.session);
    impl_->cqs[setup.id] = std::make_unique<CqRing>(setup, session);
    ++session.cqs;
}

void Shard::destroy_cq(CqId id) {
    const auto it = impl_->cqs.find(id);
    if (it == impl_->cqs.end()) return;
    impl_->completions.forget(*it->second);
    --it->second->session().cqs;
    impl_->cqs.erase(it);
}

void Shard::resize_cq(CqId id, abi::QueueHeader* header, uint32_t entries) {
    impl_->cqs.at(id)->move_to(header, entries);
}

void Shard::create_qp(const QpSetup& setup) {
    Session& session = *impl_->sessions.at(setup.session);
    Device& device = impl_->device(setup.device);
    std::pmr::memory_resource* const memory = impl_->qp_memory.or_checked();
    OwnedRecord record(std::pmr::polymorphic_allocator<>(memory).new_object<QpRecord>(
                           setup, transport::Environment{impl_->keys, device.counters, memory, &impl_->placement}, device, session,
                           impl_->cq_ring(setup.send_cq), impl_->cq_ring(setup.recv_cq)),
                       FreeRecord{memory});
    if (setup.srq != 0) record->srq = impl_->srqs.at(setup.srq).get();
    if (session.by_slot.size() <= setup.slot)
        session.by_slot.resize(std::min<size_t>((size_t{setup.slot} + 64) / 64 * 64, abi::kMaxQpsPerSession));
    session.by_slot.at(setup.slot) = record.get();
    ++session.qps;
    impl_->live.insert(setup.config.qpn, record.get());
    impl_->records[setup.config.qpn] = std::move(record);
    impl_->load.qps.store(impl_->records.size(), std::memory_order_relaxed);
}

int Shard::modify_qp(uint32_t qpn, const transport::QpAttr& attr, uint32_t mask, const wire::AddressVector* route,
                     const char** bad_attr, transport::QpAttr* after) {
    QpRecord* record = impl_->live.find(qpn);
    if (record == nullptr) return ENOENT;
    const bool reset = (mask & qp_attr_mask::kState) && attr.state == QpState::Reset;
    // What will be refused (the same in every state) must not stop the QP meanwhile.
    if (reset && (record->jobs_out() || !impl_->placement.settled(*record)) && record->qp.may_modify(attr, mask) == 0) {
        record->quiesced = true;
        return EAGAIN;
    }
    const int error = record->qp.modify(attr, mask, impl_->now, bad_attr);
    if (after != nullptr) record->qp.query(*after);
    if (error != 0) return error;
    if (reset) {
        impl_->placement.forget(*record);
        impl_->parking.forget(*record);
        record->quiesced = false;
        record->broken = false;
        record->has_route = false;
        record->sq.restart();
        record->rq.restart();
        record->capture = {};
        record->pace = {};
        record->retired = 0;
    }
    if ((mask & qp_attr_mask::kAv) && route != nullptr) {
        record->route = *route;
        if (record->route.udp_source_port == 0)
            record->route.udp_source_port = wire::udp_source_port(route->flow_label, qpn, record->qp.attr().dest_qpn);
        record->headers = wire::HeaderTemplate(record->route);
        record->has_route = true;
    }
    if (mask & qp_attr_mask::kRateLimit) record->pace.set(attr.rate_limit, attr.max_burst, impl_->now);
    impl_->scheduler.activate(*record);
    return 0;
}

bool Shard::query_qp(uint32_t qpn, transport::QpAttr* attr) {
    QpRecord* record = impl_->live.find(qpn);
    if (record == nullptr) return false;
    record->qp.query(*attr);
    return true;
}

void Shard::Impl::detach(QpRecord& record) {
    record.dying = true;
    live.erase(record.setup.config.qpn);
    record.session->by_slot[record.setup.slot] = nullptr;
    scheduler.forget(record);
    record.device->groups.forget(record);
}

bool Shard::destroy_qp(uint32_t qpn) {
    const auto it = impl_->records.find(qpn);
    if (it == impl_->records.end()) return true;
    QpRecord& record = *it->second;
    if (!record.dying) impl_->detach(record);
    if (record.jobs_out() || !impl_->placement.settled(record)) return false;
    impl_->placement.forget(record);
    impl_->parking.forget(record);
    --record.session->qps;
    impl_->records.erase(it);
    impl_->load.qps.store(impl_->records.size(), std::memory_order_relaxed);
    return true;
}

}  // namespace rocemu::engine
