// SPDX-License-Identifier: BSD-3-Clause
// SqReader: send WQEs from shared memory into the core. Each WQE is copied out once, its shape is checked on the copy,
// and a wrong one is handed on with the status it must complete with: completions stay in order (IBTA 10.8.5).
#pragma once

#include <cstdint>
#include <span>

#include "abi/queues.h"
#include "base/time.h"
#include "transport/qp_attr.h"
#include "transport/work.h"

namespace rocemu::engine {

struct QpRecord;

inline constexpr uint32_t kMaxSgesPerWqe = 64;

// What a WQE may refer to. Sizes are ours, never the application's.
struct SqLimits {
    QpType type;
    const transport::QpCaps& caps;
    uint32_t stride;         // bytes of a slot
    const std::byte* stage;  // kStageBytes, or nullptr
};

// Shape only: opcode known to QPs of this type, counts within the capabilities, total at most 2^31, what is staged within
// the stage. Keys and addresses are the core's. `slot`: the WQE in shared memory; `wqe` is the copy already taken of its
// header. Fills `out`, which is empty.
void decode_send(const abi::SqWqe& wqe, const std::byte* slot, uint32_t index, const SqLimits& limits,
                 transport::SendSlot out);

struct FetchResult {
    uint32_t fetched = 0;
    bool more = false;    // stopped by `limit` or by a full window, not by an empty queue
    bool broken = false;  // the producer index is impossible
};
// Moves up to `limit` WQEs into the core, as long as it has room.
FetchResult fetch_sends(QpRecord& record, uint32_t limit, Instant now);

}  // namespace rocemu::engine
