// SPDX-License-Identifier: BSD-3-Clause
// The agent: a thread of the provider that copies between the application's memory and the stage the daemon shares with
// it, where the daemon cannot reach that memory itself. Read lib/abi/agent_ring.h and docs/architecture.md, payload paths.
#pragma once

#include <cstdint>

#include "abi/agent_ring.h"

namespace rocemu::provider {

class Session;

// Starts the thread that serves `ring` until the session is not alive any more. `region_fd` is the file the ring lies in
// and `stage_offset` the place of its stage there. False: no thread could be made.
bool start_agent(Session& session, abi::AgentRing& ring, int region_fd, uint64_t stage_offset);

}  // namespace rocemu::provider
