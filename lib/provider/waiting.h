// SPDX-License-Identifier: BSD-3-Clause
// How a thread waits that polls an empty CQ: a few polls at full speed, then it yields its core at each poll, and where
// a yield shows that the core is contended it sleeps for a while, woken by the shard that writes a CQE. Always bounded.
// The daemon uses the same policy. Also where a thread that only polls finds out that the daemon is dead.
#pragma once

#include "provider/cq.h"

namespace rocemu::provider {

// True: time has passed, polling again at once is worth it.
bool wait_after_empty_poll(Cq& cq);
void found_work();

}  // namespace rocemu::provider
