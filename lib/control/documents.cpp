// SPDX-License-Identifier: BSD-3-Clause
// Status and counters as JSON, see documents.h. What shards write is read with relaxed loads: values of a moment ago.
#include "control/documents.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "control/cm_service.h"
#include "net/iboe_mtu.h"
#include "stats/counters.h"

namespace rocemu::control {
namespace {

using Json = nlohmann::ordered_json;

const char* path_name(payload::Path path) {
    switch (path) {
        case payload::Path::ProcessVm:
            return "process_vm";
        case payload::Path::Agent:
            return "agent";
        case payload::Path::None:
            break;
    }
    return "none";
}

Json impairments_json(const fabric::Impairments& i) {
    return {{"drop_ppm", i.drop_ppm},
            {"duplicate_ppm", i.duplicate_ppm},
            {"reorder_ppm", i.reorder_ppm},
            {"corrupt_ppm", i.corrupt_ppm},
            {"delay_ns", i.delay}};
}

Json device_json(const Device& device, const fabric::Switch* fabric) {
    Json gids = Json::array();
    for (uint32_t i = 0; i < device.gids().capacity(); ++i)
        if (const auto* entry = device.gids().at(i))
            gids.push_back({{"index", i},
                            {"gid", wire::to_string(entry->gid)},
                            {"type", entry->version == net::RoceVersion::V1 ? "RoCE v1" : "RoCE v2"}});
    Json j{{"name", device.name()},
           {"port", device.port()},
           {"netdev", device.netdev()},
           {"mac", wire::to_string(device.mac())},
           {"mtu", device.mtu()},
           {"active_mtu", net::mtu_bytes(device.active_mtu())},
           {"state", device.link_up() ? "active" : "down"}};
    if (device.fabric_nic()) j["impairments"] = impairments_json(fabric->impairments(*device.fabric_nic()));
    j["gids"] = std::move(gids);
    return j;
}

Json session_json(const Session& session) {
    Json j{{"id", session.id},
           {"pid", session.peer.pid},
           {"uid", session.peer.uid},
           {"command", session.peer.command},
           {"admin", session.admin}};
    if (session.admin) return j;
    uint64_t process_vm = 0, agent = 0, captured = 0, mapped = 0, deferred = 0, faults = 0;
    payload::Path path = session.path;
    for (const auto& stats : session.space_stats) {
        process_vm += stats->process_vm_bytes.load(std::memory_order_relaxed);
        mapped += stats->mapped_bytes.load(std::memory_order_relaxed);
        deferred += stats->deferred_bytes.load(std::memory_order_relaxed);
        captured += stats->captured_bytes.load(std::memory_order_relaxed);
        agent += stats->agent_bytes.load(std::memory_order_relaxed);
        faults += stats->faults.load(std::memory_order_relaxed);
        const auto now = stats->path.load(std::memory_order_relaxed);
        if (now != payload::Path::None) path = now;
    }
    j["payload_path"] = path_name(path);
    j["capture"] = session.capture;
    if (session.share) {
        j["share_refused"] = session.share_refused;
        j["share_error"] = session.share_error != 0 ? std::strerror(session.share_error) : "";
    }
    j["state"] = session.ending ? "ending" : "attached";
    j["contexts"] = session.contexts.size();
    j["pds"] = session.pds.size();
    j["mrs"] = session.mrs.size();
    j["channels"] = session.channels.size();
    j["cqs"] = session.cqs.size();
    j["qps"] = session.qps.size();
    j["srqs"] = session.srqs.size();
    j["xrcds"] = session.xrcds.size();
    j["flows"] = session.flows.size();
    j["cm_ids"] = session.cm.objects.size();
    j["cm_listeners"] = std::count_if(session.cm.objects.begin(), session.cm.objects.end(),
                                      [](const auto& entry) { return entry.second.stage == CmStage::Listening; });
    j["process_vm_bytes"] = process_vm;
    j["agent_bytes"] = agent;
    j["captured_bytes"] = captured;
    j["mapped_bytes"] = mapped;
    j["deferred_bytes"] = deferred;
    j["payload_faults"] = faults;
    j["queue_memory_bytes"] = session.arena ? session.arena->used() : 0;
    return j;
}

// Belongs to no session: who has a handle of each of its QPs.
Json xrc_domain_json(const XrcDomain& domain, const Control& control) {
    Json targets = Json::array();
    for (const auto& [qpn, target] : domain.targets) {
        Json sessions = Json::array();
        for (const XrcHandle& handle : target.handles) sessions.push_back(handle.session);
        targets.push_back({{"qpn", qpn}, {"sessions", std::move(sessions)}});
    }
    return {{"device", control.devices[domain.device]->name()},
            {"shard", domain.shard},
            {"opens", domain.opens},
            {"targets", std::move(targets)}};
}

}  // namespace

std::string status_document(Control& control) {
    Json j;
    j["version"] = ROCEMU_VERSION;
    j["pid"] = ::getpid();
    j["uptime_s"] = (EventLoop::now() - control.started) / kSecond;
    j["shards"] = Json::array();
    for (uint32_t i = 0; i < control.shards.size(); ++i) {
        const auto& load = control.shards.shard(i).load();
        j["shards"].push_back({{"index", i},
                               {"loops", load.loops.load(std::memory_order_relaxed)},
                               {"busy_loops", load.busy_loops.load(std::memory_order_relaxed)},
                               {"sleeps", load.sleeps.load(std::memory_order_relaxed)},
                               {"qps", load.qps.load(std::memory_order_relaxed)}});
    }
    const auto& cm = control.cm->manager().counters();
    j["cm"] = {{"connections", control.cm->manager().connections()},
               {"bindings", control.cm->manager().bindings()},
               {"rx_mads", cm.rx_mads},
               {"tx_mads", cm.tx_mads},
               {"tx_retries", cm.tx_retries},
               {"timeouts", cm.timeouts},
               {"rejected_no_listener", cm.rejected_no_listener},
               {"dropped", cm.drop_malformed + cm.drop_unknown_attribute + cm.drop_unknown_id + cm.drop_wrong_peer +
                               cm.drop_wrong_state + cm.drop_backlog + cm.drop_no_event_room + cm.drop_transmit_full}};
    j["devices"] = Json::array();
    for (const auto& device : control.devices) j["devices"].push_back(device_json(*device, control.fabric));
    j["sessions"] = Json::array();
    for (const auto& [id, session] : control.sessions)
        if (session->greeted) j["sessions"].push_back(session_json(*session));
    j["xrc_domains"] = Json::array();
    for (const auto& [id, domain] : control.xrc_domains) j["xrc_domains"].push_back(xrc_domain_json(*domain, control));
    return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string counters_document(Control& control) {
    Json j = Json::object();
    for (const auto& device : control.devices) {
        Json& values = j[device->name()];
        for (size_t c = 0; c < stats::kCounterCount; ++c) {
            const auto counter = static_cast<stats::Counter>(c);
            uint64_t sum = 0;
            for (uint32_t i = 0; i < control.shards.size(); ++i) {
                sum += control.shards.shard(i).counters(device->id()).get(counter);
                if (device->fabric_nic()) sum += control.fabric->port(*device->fabric_nic(), i).counters().get(counter);
            }
            values[std::string(stats::kCounters[c].name)] = sum;
        }
    }
    // The movers of the shards serve all devices.
    Json& daemon = j["daemon"];
    for (size_t c = 0; c < stats::kCounterCount; ++c) {
        if (!stats::kCounters[c].name.starts_with("payload_")) continue;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < control.shards.size(); ++i)
            sum += control.shards.shard(i).payload_counters().get(static_cast<stats::Counter>(c));
        daemon[std::string(stats::kCounters[c].name)] = sum;
    }
    return j.dump(2);
}

}  // namespace rocemu::control
