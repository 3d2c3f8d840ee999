// SPDX-License-Identifier: BSD-3-Clause
// Flows: the rules of one device that steer frames to raw packet QPs. Few and rarely changed: a list, looked through for
// each frame that is no RoCE packet for this port. Rules of the lowest priority number that fit get the frame, all of them; default rules
// get what no other rule does. Frames without a destination QP come to shard 0, so rules and their QPs are there.
// Read the ibv_create_flow man page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/flow_key.h"
#include "engine/setup.h"

namespace rocemu::engine {

// Where a frame goes that names no QP (Port, SharedPort): the only shard that has raw packet QPs.
inline constexpr uint32_t kRawShard = 0;

class Flows {
  public:
    [[nodiscard]] bool empty() const { return rules_.empty(); }
    void insert(const FlowSetup& rule) { rules_.push_back(rule); }
    void erase(SessionId session, uint32_t id);
    // The rules that get a frame with this key. The span lives until the next call.
    std::span<const FlowSetup* const> match(const FlowKey& frame);
    // The QP that this rule sends the frame to.
    [[nodiscard]] static uint32_t target_of(const FlowSetup& rule, const FlowKey& frame);

  private:
    std::vector<FlowSetup> rules_;
    std::vector<const FlowSetup*> matched_;
};

}  // namespace rocemu::engine
