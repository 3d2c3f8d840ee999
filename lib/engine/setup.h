// SPDX-License-Identifier: BSD-3-Clause
// What control hands to a shard when it creates things. Plain data; pointers are into regions that control keeps mapped
// until the shard has confirmed the removal. Sizes here are the trusted copies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "abi/queues.h"
#include "abi/session_page.h"
#include "base/flow_key.h"
#include "engine/port.h"
#include "net/rx_hash.h"
#include "payload/mover.h"
#include "transport/qp.h"
#include "wire/build.h"
#include "wire/eth.h"
#include "wire/gid.h"

namespace rocemu::engine {

using DeviceId = uint32_t;
using SessionId = uint32_t;  // equals the memory::SpaceId of the process
using CqId = uint32_t;
using SrqId = uint32_t;  // 0: none; also the number that an XRCETH has

struct DeviceSetup {
    DeviceId id = 0;
    std::string name;
    Port* port = nullptr;  // this shard's instance
    FramePool* pool = nullptr;
};

// A local address of a device: what ARP answers for and which destination GIDs are accepted, in frames of its VLAN.
struct LocalAddress {
    wire::Gid gid;
    bool answer_arp = false;  // no kernel interface answers for us
    uint16_t vlan = wire::kNoVlan;
};

// What can change of a port while it runs.
struct PortState {
    wire::MacAddress mac{};
    uint32_t mtu = 0;
    std::vector<LocalAddress> addresses;
};

// A neighbour that has another MAC address now.
struct NeighbourMove {
    DeviceId device = 0;
    wire::Gid address;
    wire::MacAddress mac{};
};

struct SessionSetup {
    SessionId id = 0;
    payload::SpaceInfo space;
    abi::SessionPage* page = nullptr;
    abi::DoorbellBlock* doorbells = nullptr;  // this shard's
    int wake_fd = -1;                         // eventfd the application writes to when `sleeping` is set
    const std::byte* stage = nullptr;         // kStageBytes (abi/stage.h), or nullptr: nothing is captured
};

struct CqSetup {
    CqId id = 0;
    SessionId session = 0;
    abi::QueueHeader* header = nullptr;  // this shard's ring
    uint32_t entries = 0;                // power of two
    uint32_t channel = 0;                // control's number, echoed in events; abi::kNoChannel: none
    uint64_t cookie = 0;
};

struct QueueView {
    abi::QueueHeader* header = nullptr;
    std::byte* slots = nullptr;
    uint32_t entries = 0;  // power of two
    uint32_t stride = 0;
};

struct SrqSetup {
    SrqId id = 0;
    SessionId session = 0;
    QueueView queue;
    uint32_t max_sge = 0;
    uint64_t cookie = 0;
    uint32_t context = 0;  // control's number, echoed in asynchronous events
    // XRC: the domain, where receives complete, and the PD of their lkeys and of the rkeys in requests.
    SessionId xrcd = 0;
    CqId cq = 0;
    memory::PdId pd = 0;
};

enum class FlowKind : uint8_t { Normal, Default, DefaultGroup };  // default rules: of all frames, of group addresses

// A flow rule (flows.h).
struct FlowSetup {
    SessionId session = 0;
    uint32_t id = 0;  // in its session
    DeviceId device = 0;
    FlowKind kind = FlowKind::Normal;
    uint32_t priority = 0;
    FlowKey key, mask;             // no bit of `key` outside of `mask`
    std::vector<uint32_t> queues;  // raw packet QPs, a power of two of them: which one, `hash` says
    net::RxHash hash;
};

struct QpSetup {
    transport::QpConfig config;
    DeviceId device = 0;
    SessionId session = 0;  // an XRC target's is its domain
    uint32_t slot = 0;
    CqId send_cq = 0, recv_cq = 0;  // 0: none (XRC)
    SrqId srq = 0;
    QueueView sq, rq;
    uint64_t cookie = 0;
    uint32_t context = 0;  // control's number, echoed in asynchronous events
    bool blocks_own_groups = false;  // what it sends to a group does not come back to it
};

}  // namespace rocemu::engine
