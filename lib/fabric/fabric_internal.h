// SPDX-License-Identifier: BSD-3-Clause
// What Switch and FabricPort share inside lib/fabric: the table of NICs with their receive rings and live settings.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/spsc_ring.h"
#include "engine/port.h"
#include "fabric/fabric_port.h"
#include "fabric/impairer.h"
#include "fabric/impairments.h"
#include "fabric/switch.h"
#include "wire/mac.h"

namespace rocemu::fabric {

// Receive side of one (NIC, shard): one ring per sending shard, and the wake-up handshake.
struct Inbox {
    explicit Inbox(uint32_t shards);
    ~Inbox();
    std::vector<std::unique_ptr<SpscRing<engine::Frame>>> rings;
    int event_fd = -1;
    // 1 while the owner sleeps. Owner: store 1, full fence, look at the rings. Sender: push, full fence, exchange 0.
    std::atomic<uint32_t> sleeping{0};

    void wake_if_sleeping();
};

// Live settings, one writer: values stored relaxed between two increments of `version` (odd: being written).
struct LiveImpairments {
    std::atomic<uint32_t> version{0};
    std::atomic<uint64_t> seed{0};
    std::atomic<uint32_t> drop{0}, duplicate{0}, reorder{0}, corrupt{0};
    std::atomic<int64_t> delay{0};

    void store(const Impairments& v);
    // False: a write is under way; look again at the next burst.
    bool load(uint32_t& version_seen, Impairments& out) const;
};

struct Nic {
    wire::MacAddress mac{};
    uint32_t mtu = 0;
    engine::FramePool* pool = nullptr;
    LiveImpairments live;
    Impairments current;                             // the writer's copy
    std::vector<std::unique_ptr<Inbox>> inboxes;     // by shard
    std::vector<std::unique_ptr<FabricPort>> ports;  // by shard
};

struct Switch::Impl {
    uint32_t shards = 1;
    std::vector<std::unique_ptr<Nic>> nics;
};

struct FabricPort::Impl {
    Impl(Switch::Impl& s, Nic& n, uint32_t nic_index, uint32_t shard_index);
    ~Impl();

    // Hands frames to whoever their destination MACs name, in order; returns how many left.
    size_t forward(std::span<engine::Frame> frames);
    [[nodiscard]] Inbox* target(const engine::Frame& frame) const;
    [[nodiscard]] Inbox& inbox_of(Nic& to, const engine::Frame& frame) const;
    size_t deliver(Inbox& inbox, std::span<const engine::Frame> frames);
    void flood(engine::Frame& frame);
    void send_copy(const engine::Frame& frame, Inbox& inbox);

    Switch::Impl& net;
    Nic& nic;
    uint32_t index, shard;
    stats::CounterBlock counters;
    Impairer impairer;
    uint32_t settings_seen = 0;
    uint32_t next_ring = 0;  // whose ring rx_burst starts with
};

}  // namespace rocemu::fabric
