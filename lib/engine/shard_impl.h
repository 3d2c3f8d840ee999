// SPDX-License-Identifier: BSD-3-Clause
// Shard::Impl: everything a shard owns, in the order in which it may be torn down (last member first).
#pragma once

#include <cassert>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/completions.h"
#include "engine/huge_memory.h"
#include "engine/mailbox.h"
#include "engine/placement.h"
#include "engine/qp_record.h"
#include "engine/qpn_table.h"
#include "engine/receiver.h"
#include "engine/scheduler.h"
#include "engine/shard.h"
#include "engine/srq.h"
#include "engine/transmitter.h"
#include "engine/waiter.h"

namespace rocemu::engine {

struct FreeRecord {
    std::pmr::memory_resource* memory = nullptr;
    void operator()(QpRecord* record) const { std::pmr::polymorphic_allocator<>(memory).delete_object(record); }
};
using OwnedRecord = std::unique_ptr<QpRecord, FreeRecord>;

struct Shard::Impl {
    explicit Impl(const ShardConfig& c);
    ~Impl();

    // One turn, in the order of docs/architecture.md ("loop of a shard").
    bool turn(Shard& shard, Instant t);
    bool receive();
    bool scan_doorbells();
    bool collect_payload();
    bool flush_ports();

    // Sleeping.
    [[nodiscard]] bool may_sleep() const;
    void sleep();
    [[nodiscard]] Instant next_deadline() const;

    Device& device(DeviceId id);
    CqRing* cq_ring(CqId id) { return id == 0 ? nullptr : cqs.at(id).get(); }
    // The address headers of connections and address handles of a device: change(HeaderTemplate&, destination).
    template <typename Change>
    void change_headers(Change change);
    // Leaves all tables and lists.
    void detach(QpRecord& record);

    ShardConfig config;
    Instant now;
    bool backlog = false;  // a device had more frames than were taken in this turn
    uint32_t backlog_turns = 0;
    // What had arrived by then has been handled. Timers of QPs are judged by it: a shard that was not run for a while
    // believes none whose answer waits in a ring.
    Instant seen{0};
    std::atomic<bool> stop{false};
    std::thread::id owner;  // set by run()
    Notifier notifier;
    Mailbox mailbox{notifier};
    Waiter waiter;
    ShardLoad load;
    stats::CounterBlock payload_counters;
    memory::KeyTable keys;
    std::vector<std::unique_ptr<Device>> devices;
    payload::PayloadMover mover{payload_counters, config.atomic_locks};
    Completions completions{notifier};
    Placement placement{mover, keys, completions};
    Parking parking{placement, completions};
    Transmitter transmitter{mover, keys};
    Scheduler scheduler;
    QpnTable live;  // QPs that packets and doorbells reach
    Receiver receiver;
    std::unordered_map<SessionId, std::unique_ptr<Session>> sessions;
    std::vector<Session*> session_list;
    size_t next_session = 0;  // with whom the next scan begins
    std::unordered_map<CqId, std::unique_ptr<CqRing>> cqs;
    std::unordered_map<SrqId, std::unique_ptr<SrqRecord>> srqs;
    HugeMemory qp_memory;  // each QP's record, the core's state of it, its rings
    std::unordered_map<uint32_t, OwnedRecord> records;  // by QPN, the dying ones too
};

}  // namespace rocemu::engine
