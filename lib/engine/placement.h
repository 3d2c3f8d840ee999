// SPDX-License-Identifier: BSD-3-Clause
// Placement: executes the core's DMA requests (payload of received packets into application memory, atomics) through
// the mover. The requests of one QP from one RX burst are one job, done as few copies as the addresses allow: a "run"
// is a stretch of requests for one address space. Results go to the core in the order of the tags.
//
// Order inside a copy: a string copy has none, and programs poll the last byte of a WRITE. So the last 8 bytes of a
// WRITE message are a piece of their own: pieces are copied one after the other (process_vm: segments of the local
// vector; agent: jobs).
//
// An application whose agent is slow must not hold the shard: a QP has at most kJobsPerQp jobs out (what arrives
// meanwhile becomes one larger job), a session a bounded number of frames, and the last jobs are kept for sessions that
// have none out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "engine/held_frames.h"
#include "engine/kept_frames.h"
#include "payload/mover.h"
#include "transport/io.h"

namespace rocemu::engine {

struct QpRecord;

struct PlaceJob {
    QpRecord* record = nullptr;
    PlaceJob* next = nullptr;  // in the QP's list, or in the free list
    uint32_t cursor = 0;       // next request to execute
    uint32_t run_end = 0;      // requests [cursor, run_end) are in the copy that is out
    bool out = false;          // there is one ...
    memory::SpaceId space = 0;  // ... into this address space
    bool done = false;
    // Not initialised: jobs that are never used cost no memory.
    std::array<transport::DmaStatus, transport::kDmaBatchRequests> status;
    std::array<uint64_t, transport::kDmaBatchRequests> original;
    // Of the run: which request a piece belongs to.
    std::array<uint8_t, transport::kBatchSegments> piece_owner;
    transport::DmaBatch batch;
};

class Placement final : public transport::DirectMemory {
  public:
    static constexpr uint32_t kJobs = 256;
    static constexpr uint32_t kReservedJobs = 32;  // for sessions with nothing out
    static constexpr uint32_t kJobsPerQp = 2;
    static constexpr uint32_t kHeldPerSession = 128;  // frames, before its packets are dropped
    // A QP may hold as many when its session has too many: others of a slow program must not starve it into RETRY_EXC.
    static constexpr uint32_t kHeldPerQp = 16;
    static constexpr uint32_t kHeldFrames = 16384;
    static constexpr uint32_t kBurst = 64;  // packets that are admitted before the first of them is held
    // Packets that were kept were admitted when they came: there is always room for all of them.
    static constexpr uint32_t kHeldFramesReserved = KeptFrames::kPerShard + kBurst;
    static_assert(kHeldFramesReserved < kHeldFrames / 2);
    // Cookies of the mover: the top bit tells placements from gathers.
    static constexpr uint64_t kCookieBit = uint64_t{1} << 63;

    Placement(payload::PayloadMover& mover, const memory::KeyTable& keys, Completions& completions);

    bool place(const memory::Segment& segment, const std::byte* source, bool ends_write) override;

    // May a packet that is read later (frame_view.h) be handed to the core? No: it must be dropped, its frame could not
    // be kept.
    [[nodiscard]] bool admits(const QpRecord& record) const;

    // Hands in kept packets whose turn has come, and takes and executes what the QP wants done. `frames`: those of this
    // burst that its requests may read from, in order; of the ones that are needed longer the ownership passes here,
    // and they get data = nullptr. True if anything was done.
    bool run(QpRecord& record, std::span<Frame*> frames, Instant now);
    // Requests may wait in the core because too many jobs were out: run() must be called again.
    [[nodiscard]] static bool owes(const QpRecord& record);
    [[nodiscard]] KeptFrames& kept() { return kept_; }
    // None of its jobs is out: is nothing left either of those that were given up, which its process is in the middle of?
    // (In memory of other processes, which are not held up by this one, their regions see to it.)
    [[nodiscard]] bool settled(const QpRecord& record);
    // The QP is reset or goes away, and that is so: its frames go back.
    void forget(QpRecord& record);
    // Returns the QP it belongs to.
    QpRecord& handle_result(const payload::Result& result, Instant now);

  private:
    bool place(QpRecord& record, std::span<Frame*> frames, Instant now);
    bool place_kept(QpRecord& record, Instant now);
    void release_held(QpRecord& record);
    PlaceJob* take(const QpRecord& record);
    void release(PlaceJob* job);
    // Starts what may be started of the QP's jobs: nothing overtakes a request before it, also of another job. `late`:
    // the requests were checked in an earlier turn; memory that was deregistered since is not touched any more.
    void advance(QpRecord& record, bool late, Instant now);
    // Executes until the end, until a copy is out, or until one must wait for that of `before` (or nullptr).
    void advance(PlaceJob& job, const PlaceJob* before, bool late, Instant now);
    enum class Run : uint8_t { Ended, Out, MustWait };
    Run start_run(PlaceJob& job, const PlaceJob* before, bool late, Instant now, payload::Result& result);
    [[nodiscard]] bool still_there(const transport::DmaBatch& batch, const transport::DmaRequest& request) const;
    void finish_run(PlaceJob& job, const payload::Result& result);
    // What was not executed yet fails without being tried.
    static void give_up(PlaceJob& job);
    void deliver(QpRecord& record, Instant now);
    void note_given_up(const PlaceJob& job);

    payload::PayloadMover& mover_;
    const memory::KeyTable& keys_;
    HeldFrames held_{kHeldFrames};
    KeptFrames kept_;
    std::vector<std::unique_ptr<PlaceJob>> jobs_;
    PlaceJob* free_ = nullptr;
    uint32_t free_count_ = 0;
    std::array<payload::Piece, transport::kBatchSegments> pieces_;
    std::array<payload::Origin, transport::kBatchSegments> origins_;  // of the pieces that may be deferred
    // QPs with placements that were given up, and what of its process must have passed. Of stopped processes: most often
    // there are none.
    struct Unsettled {
        const QpRecord* record;
        memory::SpaceId space;
        uint64_t fence;
    };
    std::vector<Unsettled> unsettled_;
};

}  // namespace rocemu::engine
