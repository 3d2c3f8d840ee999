// SPDX-License-Identifier: BSD-3-Clause
// The block that each session (attached process) shares with each shard: doorbells and the words both sides sleep on.
// Laid out in region 0 of the session: SessionPage, then one DoorbellBlock per shard, then the agent's ring.
#pragma once

#include <atomic>
#include <cstdint>

namespace rocemu::abi {

inline constexpr uint32_t kMaxQpsPerSession = 65536;

// Three-level idempotent bitmap over QP slots (CreateQpReply::slot). To ring: producer index stored with release, then
// fetch_or of the slot's bit in words[]; only if that word was 0 before, fetch_or its bit in summary[]; only if that
// was 0, in top. To look: exchange top, then the summaries, then the words with 0 (this order, acquire), then read the
// producer indices. All read-modify-writes are seq_cst: they pair with `sleeping`.
struct DoorbellBlock {
    alignas(64) std::atomic<uint64_t> top;  // bit i: summary[i] is not 0
    // 1 while the shard sleeps: it stores 1, fences, looks at `top` once more, then waits on the session's eventfd of
    // this shard. Whoever rings reads it after the doorbell and, if set, writes 1 to that eventfd.
    std::atomic<uint32_t> sleeping;
    alignas(64) std::atomic<uint64_t> summary[16];
    alignas(64) std::atomic<uint64_t> words[kMaxQpsPerSession / 64];
};

struct SessionPage {
    // Counts up by the daemon's control thread about once a second: life sign. The provider also looks for a hang-up
    // of the control socket now and then.
    alignas(64) std::atomic<uint32_t> heartbeat;
    // Threads of the process that sleep in ibv_poll_cq (FUTEX_WAIT on cq_wake, always with a timeout). A shard that has
    // written CQEs fences, reads it and, if not 0, adds 1 to cq_wake and calls FUTEX_WAKE.
    alignas(64) std::atomic<uint32_t> cq_sleepers;
    std::atomic<uint32_t> cq_wake;
};

}  // namespace rocemu::abi
