// SPDX-License-Identifier: BSD-3-Clause
// After the daemon's death the provider is the writer of every CQ: whatever was posted and not completed ends as
// IBV_WC_WR_FLUSH_ERR, in order, when the CQ is polled; nothing is stored for it.
#pragma once

#include "provider/cq.h"

namespace rocemu::provider {

// Fills up to `capacity` completions; the CQ's lock is held and its rings are empty. Returns how many.
int flush_after_death(Cq& cq, int capacity, ibv_wc* wc);

}  // namespace rocemu::provider
