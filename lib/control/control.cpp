// SPDX-License-Identifier: BSD-3-Clause
// Control: start of the devices on the shards, events from them, the clock.
#include "control/control.h"

#include <cstring>

#include "abi/messages.h"
#include "control/captures.h"
#include "control/interface_watch.h"
#include "control/cm_service.h"
#include "control/services/xrc_service.h"

namespace rocemu::control {

Control::Control(const config::Config& c, EventLoop& l, std::vector<engine::Shard*> shard_list,
                 std::vector<std::unique_ptr<Device>> device_list, fabric::Switch* f)
    : config(c),
      loop(l),
      devices(std::move(device_list)),
      fabric(f),
      shards(
          l, std::move(shard_list), [this](const engine::ShardEvent& e) { on_shard_event(e); },
          [this](const engine::ReceivedMad& m) { cm->receive(m); }),
      resolver(devices, shards),
      captures(std::make_unique<Captures>(*this)),
      cm(std::make_unique<CmService>(*this)),
      session_ids(1, 1u << 30),
      pd_ids(1, 1u << 30),
      cq_ids(1, 1u << 30),
      srq_ids(1, 1u << 24),
      qpns(shards.size()),
      started(EventLoop::now()) {
    for (auto& device : devices)
        shards.submit_all(
            [id = device->id(), state = device->state()](engine::Shard& shard, uint32_t) {
                shard.set_port_state(id, state);
                return true;
            },
            [] {});
    interfaces = std::make_unique<InterfaceWatch>(*this);
}

Control::~Control() = default;

void Control::raise_port_event(const Device& device, AsyncEvent event) {
    abi::AsyncEventRecord record;
    record.element = 1;  // the port
    record.event_type = static_cast<uint32_t>(event);
    for (auto& [id, session] : sessions) {
        if (session->ending) continue;
        for (auto& [number, context] : session->contexts)
            if (context.device == device.id() && context.events)
                context.events->post(std::as_bytes(std::span(&record, 1)), false);
    }
}

Device* Control::find_device(const std::string& name) {
    for (auto& device : devices)
        if (device->name() == name) return device.get();
    return nullptr;
}

void Control::on_shard_event(const engine::ShardEvent& event) {
    if (event.kind == engine::ShardEventKind::Neighbour) {
        wire::Gid address;
        address.raw = event.address;
        return resolver.learn(event.object, address, event.mac, EventLoop::now());
    }
    if (const auto domain = xrc_domains.find(event.session); domain != xrc_domains.end())
        return tell_handles(*this, *domain->second, event);
    const auto it = sessions.find(event.session);
    if (it == sessions.end() || it->second->ending) return;
    Session& session = *it->second;
    if (event.kind == engine::ShardEventKind::Completion) {
        const auto channel = session.channels.find(event.object);
        if (channel == session.channels.end()) return;
        std::byte record[sizeof event.cookie];
        std::memcpy(record, &event.cookie, sizeof record);
        channel->second.events->post(record, true);
        return;
    }
    const auto context = session.contexts.find(event.object);
    if (context == session.contexts.end() || !context->second.events) return;
    abi::AsyncEventRecord record;
    record.element = event.cookie;
    record.event_type = static_cast<uint32_t>(event.async);
    context->second.events->post(std::as_bytes(std::span(&record, 1)), false);
}

void Control::tick() {
    const Instant now = EventLoop::now();
    resolver.tick(now);
    resolver.tell_moves();
    resolver.report_groups(now);
    cm->tick(now);
    // A life sign about once a second: the count of tenths would do as well, programs look for change only.
    for (auto& [id, session] : sessions)
        if (session->page)
            session->page->heartbeat.store(static_cast<uint32_t>((now - started) / kSecond) + 1,
                                           std::memory_order_relaxed);
}

}  // namespace rocemu::control
