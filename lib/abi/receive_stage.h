// SPDX-License-Identifier: BSD-3-Clause
// The receive stage: memory of a session into which a shard puts the payload of SENDs and the results of READs and
// atomics ("deferred"), so that it need not reach into the application for them. The provider copies them to their place
// before it returns any work completion. It lies in region 0 (HelloReply::receive_stage_offset). Only the shard
// allocates in it: records and bytes are rings, in the order of the placements.
//
// A record is executed exactly once: whoever changes its `state` from Pending to Provider or Daemon does it. The provider
// takes records in order. The shard takes what is pending before it reaches into the process by another way, so that
// nothing overtakes it, and where the stage is full. `state` carries the record's number too: the place of a record that
// was done is used again, and a provider that comes late must see that.
//
// The shard believes nothing here but `state` as one of the values it may have: lengths and addresses of its own are
// private copies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rocemu::abi {

inline constexpr uint32_t kDeferredRecords = 2048;        // power of two
inline constexpr uint32_t kReceiveStageBytes = 1u << 20;  // the bytes of a record are contiguous

enum class DeferredState : uint32_t {
    Pending = 1,   // daemon; published
    Provider = 2,  // provider copies
    Daemon = 3,    // daemon copies
    Done = 4,
    Fault = 5,       // the daemon could not write there: the provider has not been told
    FaultTold = 6,   // the memory is not there: the work request completes with LOC_PROT_ERR
};
inline constexpr uint32_t kDeferredStateBits = 3;
constexpr uint32_t deferred_word(uint32_t number, DeferredState state) {
    return number << kDeferredStateBits | static_cast<uint32_t>(state);
}

struct DeferredRecord {
    uint64_t va;
    uint32_t length;
    uint32_t offset;  // of the bytes in the stage
    // Whose payload it is, as in the Cqe.
    uint32_t qpn;
    uint32_t qp_slot;
    uint32_t wqe_index;
    uint32_t is_recv;
    // deferred_word(). Pending is stored with release behind the rest; every change is seen with acquire.
    std::atomic<uint32_t> state;
    uint32_t reserved[7];
};
static_assert(sizeof(DeferredRecord) == 64);

struct ReceiveStage {
    // Records below were written; release, partner: the provider's acquire load behind the CQE it has found.
    alignas(64) std::atomic<uint32_t> published;
    alignas(64) DeferredRecord records[kDeferredRecords];
    alignas(4096) std::byte bytes[kReceiveStageBytes];
};

}  // namespace rocemu::abi
