// SPDX-License-Identifier: BSD-3-Clause
// What a session owns. Plain records kept by control; the shards have their own of the same objects. An object is found
// only in the tables of its own session: a number of somebody else's means nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/verbs_types.h"
#include "control/event_outbox.h"
#include "control/mapped_file.h"
#include "control/queue_arena.h"
#include "control/xrc_domain.h"
#include "memory/key_table.h"
#include "net/rx_hash.h"
#include "wire/gid.h"

namespace rocemu::control {

struct ContextObject {
    uint32_t device = 0;
    std::unique_ptr<EventOutbox> events;  // asynchronous events; nullptr if the application gave no socket
};

struct PdObject {
    uint32_t context = 0;
    uint32_t users = 0;  // MRs, QPs, address handles
};

struct AhObject {
    uint32_t context = 0;
    uint32_t pd = 0;
};

struct MrObject {
    uint32_t pd = 0;
    uint32_t context = 0;
    memory::Region region;  // as the shards have it
    std::shared_ptr<MappedFile> file;  // nullptr: not mapped here
};

struct MwObject {
    uint32_t pd = 0;
    uint32_t context = 0;
    bool type1 = false;
    uint32_t key = 0;  // type 1: the present one
};

struct ChannelObject {
    uint32_t context = 0;
    uint32_t users = 0;  // CQs
    std::unique_ptr<EventOutbox> events;
};

struct CqObject {
    uint32_t context = 0;
    uint32_t channel = 0;     // abi::kNoChannel: none
    uint32_t users = 0;       // a QP counts once for each of its CQs
    uint64_t cookie = 0;      // in its events, as for SRQs and QPs
    QueueBlock block;         // one ring a shard ...
    uint64_t ring_bytes = 0;  // ... this far apart
};

struct SrqObject {
    uint32_t context = 0, pd = 0;
    uint32_t shard = 0;  // of all its QPs
    uint32_t users = 0;  // QPs
    uint32_t max_wr = 0, max_sge = 0;
    uint64_t cookie = 0;
    QueueBlock block;
    uint32_t xrcd = 0, cq = 0;  // XRC ...
    std::shared_ptr<XrcDomain> domain;
};

struct FlowObject {
    uint32_t context = 0, device = 0;
    uint32_t qpn = 0;  // whose it is
};

// A raw packet QP that spreads frames over others.
struct RssQpObject {
    uint32_t context = 0, device = 0, pd = 0;
    uint32_t users = 0;  // flow rules
    std::vector<uint32_t> queues;
    net::RxHash hash;
};

struct QpObject {
    uint32_t context = 0, device = 0;
    uint32_t shard = 0, slot = 0;
    uint32_t pd = 0, send_cq = 0, recv_cq = 0;
    uint32_t srq = 0;  // abi::kNoSrq: none
    QpType type = QpType::Rc;
    uint64_t cookie = 0;
    QueueBlock block;
    std::vector<wire::Gid> groups;  // it is attached to
    uint32_t users = 0;             // flow rules, and QPs that hash to it
};

}  // namespace rocemu::control
