// SPDX-License-Identifier: BSD-3-Clause
// Control: the state that all services share: devices, shards, number allocators, sessions. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "control/device.h"
#include "control/event_loop.h"
#include "control/id_pool.h"
#include "control/key_allocator.h"
#include "control/qpn_allocator.h"
#include "control/resolver.h"
#include "control/session.h"
#include "control/shard_link.h"
#include "fabric/switch.h"

namespace rocemu::control {

class Captures;
class InterfaceWatch;
class CmService;

struct Control {
    Control(const config::Config& config, EventLoop& loop, std::vector<engine::Shard*> shards,
            std::vector<std::unique_ptr<Device>> devices, fabric::Switch* fabric);
    ~Control();

    const config::Config& config;
    EventLoop& loop;
    std::vector<std::unique_ptr<Device>> devices;
    fabric::Switch* fabric;  // nullptr: no device is on it
    ShardSet shards;
    Resolver resolver;
    std::unique_ptr<Captures> captures;
    std::unique_ptr<InterfaceWatch> interfaces;
    std::unique_ptr<CmService> cm;

    IdPool session_ids, pd_ids, cq_ids, srq_ids;
    KeyAllocator keys;
    QpnAllocator qpns;
    // By number; those that end are still here until nothing of them is left.
    std::map<uint32_t, std::shared_ptr<Session>> sessions;
    // By their session number; those that nobody has open any more are here until nothing of them is left.
    std::map<uint32_t, std::shared_ptr<XrcDomain>> xrc_domains;
    Instant started;

    Device* find_device(const std::string& name);
    // An event that a shard tells; to the session it concerns, if that lives.
    void on_shard_event(const engine::ShardEvent& event);
    void tick();  // every 100 ms
    // To every context of the device, about its port.
    void raise_port_event(const Device& device, AsyncEvent event);

    // A call to one shard, or to all, that belongs to a session: the session stays until it has come back.
    template <typename OnShard, typename OnControl>
    void call(const std::shared_ptr<Session>& session, uint32_t shard, OnShard on_shard, OnControl on_control) {
        session->call_begins();
        shards.submit(shard, std::move(on_shard), [session, done = std::move(on_control)]() mutable {
            done();
            session->call_ends();
        });
    }
    template <typename OnShard, typename OnControl>
    void call_all(const std::shared_ptr<Session>& session, OnShard on_shard, OnControl on_control) {
        session->call_begins();
        shards.submit_all(std::move(on_shard), [session, done = std::move(on_control)]() mutable {
            done();
            session->call_ends();
        });
    }
};

}  // namespace rocemu::control
