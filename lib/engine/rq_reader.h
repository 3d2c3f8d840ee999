// SPDX-License-Identifier: BSD-3-Clause
// RqReader: receive WQEs from shared memory into the core, before a packet needs one. Copied once, checked on the copy.
#pragma once

#include <cstdint>

#include "engine/setup.h"
#include "transport/qp.h"

namespace rocemu::engine {

struct QpRecord;
struct QueueReader;

// The WQE at the reader's index, copied once and checked on the copy, goes to the core. The index stays. `srq`: whose it
// is.
void post_receive(transport::Qp& qp, const QueueReader& reader, uint32_t max_sge, SrqId srq = 0);

// Fills the core's window, but not in RESET. False: the producer index is impossible.
bool top_up_receives(QpRecord& record);

// Before each packet that takes a receive, or whose answer promises some. Looks at the application's producer index (a
// cache line that it writes) only when less than half of the window is left.
bool top_up_if_low(QpRecord& record);

}  // namespace rocemu::engine
