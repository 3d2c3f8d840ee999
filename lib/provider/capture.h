// SPDX-License-Identifier: BSD-3-Clause
// Capture: copies the payload of SENDs and WRITEs into the session's stage when they are posted, or, where the stage is
// full, in ibv_poll_cq as room gets free; so that the daemon need not reach into this process for them. Nothing of it
// shows: a WR that cannot be captured stays as it was and is gathered by the daemon.
//
// Rules that keep it invisible to a correct program: nothing with or behind IBV_SEND_FENCE is captured before the READs
// and atomics in front of the fence have completed (they may fill the very buffer); copies are guarded, and what cannot
// be read is left to the daemon, which completes it with LOC_PROT_ERR; keys are checked by the daemon as ever; a QP that
// does not progress keeps half of the stage at most; a forked child captures nothing.
// Read lib/abi/stage.h.
#pragma once

#include <atomic>
#include <cstdint>

#include "provider/stage.h"

namespace rocemu::provider {

struct Cq;
struct Qp;

// Of a send queue. Lock order: CQ, send queue, `lock`, stage.
struct CaptureState {
    Spinlock lock;                     // guards extents, reclaimed, held
    Extent* extents = nullptr;         // by SQ slot; nullptr: nothing of this QP is captured
    uint32_t reclaimed = 0;            // WQEs below have given back what they held
    std::atomic<uint32_t> held{0};     // blocks
    // Under the send queue's lock.
    uint32_t next = 0;                 // oldest WQE that waits for its capture, if `pending`
    uint32_t newest_read = 0;          // newest READ or atomic, if `reads`
    bool reads = false;
    uint32_t fence = 0;                // READ or atomic that must have completed before anything is captured, if `fenced`
    bool fenced = false;
    bool pending = false;              // in the CQ's list
    Qp* next_pending = nullptr;        // under the CQ's pending_lock
};

// At creation; without memory for it nothing is captured.
void set_up_capture(Qp& qp);
// WQEs [first, head) were written (the queue's lock is held): captures what it may, and publishes all of them.
void capture_and_publish(Qp& qp, uint32_t head);
// A completion was taken: gives back what it and those before it held. The CQ's lock is held.
void reclaim_captured(Qp& qp);
// In ibv_poll_cq: captures what waits. The CQ's lock is held.
void capture_waiting(Cq& cq);
// Nothing more of the QP is captured in ibv_poll_cq. The CQs' and the send queue's locks are held.
void stop_waiting_captures(Qp& qp);
// The QP is reset or goes away, nothing of it is sent any more. The CQs' and the send queue's locks are held.
void forget_captured(Qp& qp);

}  // namespace rocemu::provider
