// SPDX-License-Identifier: BSD-3-Clause
// SharedPort: lets several shards use a port that has one queue. Shard 0 polls it, keeps the frames whose destination
// QP is its own and hands the others over by single-producer rings; frames to send come back the same way. What a shard
// sends to the NIC itself, or to a group, gets to the other shards here: no wire brings it back.
#pragma once

#include <memory>

#include "engine/port.h"

namespace rocemu::engine {

class SharedPort {
  public:
    // `real` is used by shard 0 only from now on; it and `pool` outlive this object.
    SharedPort(Port& real, FramePool& pool, uint32_t shards);
    ~SharedPort();
    Port& port(uint32_t shard);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::engine
