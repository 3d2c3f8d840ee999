// SPDX-License-Identifier: BSD-3-Clause
// Placement: executes the core's DMA requests (payload of received packets into application memory, atomics) through
// the mover. The requests of one QP from one RX burst are one job, done as few copies as the addresses allow: a "run"
// is a stretch of requests for one address space. Results go to the core in the order of the tags.
//
// Order inside a copy: string copies have none, and programs poll the last byte of a WRITE. The mover stores the last
// 8 bytes of a run by themselves, so a run ends where a WRITE message ends (unless it is small enough to be one store).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "engine/port.h"
#include "payload/mover.h"
#include "transport/io.h"

namespace rocemu::engine {

struct Device;
struct QpRecord;

struct PlaceJob {
    static constexpr uint32_t kFrames = 64;

    QpRecord* record = nullptr;
    Device* device = nullptr;  // the record's
    PlaceJob* next = nullptr;  // in the QP's list, or in the free list
    uint32_t cursor = 0;       // next request to execute
    uint32_t run_end = 0;      // requests [cursor, run_end) are in the copy that is out
    bool done = false;
    uint32_t frames_held = 0;
    std::array<Frame, kFrames> frames;  // the requests' sources lie in them
    std::array<bool, transport::kDmaBatchRequests> ends_write{};
    std::array<transport::DmaStatus, transport::kDmaBatchRequests> status{};
    std::array<uint64_t, transport::kDmaBatchRequests> original{};
    // Of the run: which request a piece belongs to.
    std::array<uint8_t, transport::kBatchSegments> piece_owner{};
    transport::DmaBatch batch;
};

class Placement {
  public:
    static constexpr uint32_t kJobs = 128;
    // Cookies of the mover: the top bit tells placements from gathers.
    static constexpr uint64_t kCookieBit = uint64_t{1} << 63;

    explicit Placement(payload::PayloadMover& mover);
    ~Placement();

    // Jobs that can be started now. RX stops while fewer are left than a burst may need: back-pressure.
    [[nodiscard]] uint32_t free_jobs() const { return free_count_; }

    // Takes and executes what the QP wants done. `frames`: those of this burst handled for it, in order; ownership of
    // the ones that are needed longer passes here, and they are marked by data = nullptr in place.
    // True if anything was done. Precondition: free_jobs() > 0.
    bool run(QpRecord& record, std::span<Frame*> frames, Instant now);
    // Returns the QP it belongs to.
    QpRecord& handle_result(const payload::Result& result, Instant now);

  private:
    PlaceJob* take();
    void release(PlaceJob* job);
    // Executes until the end or until a copy is out.
    void advance(PlaceJob& job, Instant now);
    bool start_run(PlaceJob& job, Instant now, payload::Result& result);
    void finish_run(PlaceJob& job, const payload::Result& result);
    void deliver(QpRecord& record, Instant now);
    static void mark_write_ends(PlaceJob& job, std::span<Frame*> frames);

    payload::PayloadMover& mover_;
    std::vector<std::unique_ptr<PlaceJob>> jobs_;
    PlaceJob* free_ = nullptr;
    uint32_t free_count_ = 0;
    std::array<payload::Piece, transport::kBatchSegments> pieces_;
};

}  // namespace rocemu::engine
