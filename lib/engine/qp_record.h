// SPDX-License-Identifier: BSD-3-Clause
// QpRecord: what the engine keeps beside the core's Qp: queues in shared memory, address headers, its places in the
// shard's lists, and payload jobs that are out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/timing_wheel.h"
#include "engine/cq_ring.h"
#include "engine/device.h"
#include "engine/held_frames.h"
#include "engine/pace.h"
#include "engine/queue_reader.h"
#include "engine/session.h"
#include "engine/setup.h"
#include "transport/qp.h"
#include "wire/build.h"

namespace rocemu::engine {

struct PlaceJob;
struct SrqRecord;

// The oldest WQE in the queue waits for the provider to capture its payload (sq_reader.cpp).
struct CaptureWait {
    Instant due = kNever;  // until then; kNever: none waits
    uint32_t retired = 0;  // QpRecord::retired when `due` was set
    uint32_t pull = 0;     // WQEs that are gathered without waiting, because the program did not come back ...
    uint32_t step = 0;     // ... and how many they were at first
};

struct QpTimer : TimerNode {
    QpRecord* record = nullptr;
};

struct QpRecord {
    QpRecord(const QpSetup& s, transport::Environment env, Device& dev, Session& ses, CqRing* scq, CqRing* rcq)
        : setup(s), qp(s.config, env), device(&dev), session(&ses), send_cq(scq), recv_cq(rcq) {
        sq.view = s.sq;
        rq.view = s.rq;
        qp.user = this;
        timer.record = this;
    }

    QpSetup setup;
    transport::Qp qp;
    Device* device;
    Session* session;
    CqRing* send_cq;  // nullptr: nothing is sent ...
    CqRing* recv_cq;  // ... or received; an XRC target's receives complete where their SRQ says
    QueueReader sq, rq;
    CaptureWait capture;
    Pace pace;
    uint32_t retired = 0;  // send WQEs that have completed, as told to the application
    SrqRecord* srq = nullptr;  // receives come from it; rq is empty then

    // From the address vector (RTR).
    wire::HeaderTemplate headers;
    wire::AddressVector route;
    bool has_route = false;
    uint16_t ip_id = 0;

    // Membership in the shard's lists.
    bool active = false;  // in its session's list of the scheduler
    QpRecord* next_active = nullptr;
    bool touched = false;  // got a packet in the burst that is being handled
    QpRecord* next_touched = nullptr;
    uint32_t burst_first = 0, burst_last = 0;  // its frames in that burst (see Receiver)
    QpTimer timer;

    // Payload jobs.
    bool gathering = false;         // a batch is under way: not polled for packets until it has left ...
    bool reads_memory = false;      // ... and its gather still reads the program's memory
    PlaceJob* jobs_head = nullptr;  // placements out, oldest first
    PlaceJob* jobs_tail = nullptr;
    uint32_t jobs = 0;
    HeldList held;               // frames that placements read from ...
    uint32_t frames_held = 0;    // ... and how many
    HeldList kept;               // frames that came too early
    bool held_unpolled = false;  // requests may wait in the core
    uint64_t polled_tag = 0;     // newest request taken from the core

    HeldList parked;  // packets before their receive (Parking)
    uint32_t parked_count = 0;

    bool dying = false;     // destroy_qp was called: in no table any more
    bool quiesced = false;  // RESET waits for payload jobs: nothing new is taken
    bool broken = false;    // its queues in shared memory are nonsense

    // Where QPs take turns, nothing of the next ones is near. These ask for it, step by step: each needs what the one
    // before has brought.
    void prefetch() const {
        for (size_t at = 0; at < sizeof(QpRecord); at += 64)
            __builtin_prefetch(reinterpret_cast<const std::byte*>(this) + at);
    }
    void prefetch_state() const {
        qp.prefetch();
        sq.prefetch_header();
        rq.prefetch_header();
    }
    void prefetch_queues() const {
        qp.prefetch_queues();
        sq.prefetch_slots();
    }

    [[nodiscard]] QpType type() const { return setup.config.type; }
    [[nodiscard]] bool raw() const { return type() == QpType::RawPacket; }
    [[nodiscard]] bool is_xrc_target() const { return type() == QpType::XrcRecv; }
    [[nodiscard]] bool connected() const { return type() != QpType::Ud && !raw(); }
    // Nobody sends again what it drops.
    [[nodiscard]] bool unacked() const { return !connected() || type() == QpType::Uc; }
    // IBTA 10.3.1: a connected QP knows its peer from RTR on, a datagram QP needs none.
    [[nodiscard]] bool may_transmit() const { return has_route || !connected(); }
    [[nodiscard]] bool jobs_out() const { return gathering || jobs_head != nullptr; }
};

}  // namespace rocemu::engine
