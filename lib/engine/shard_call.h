// SPDX-License-Identifier: BSD-3-Clause
// Messages between the control thread and a shard. A ShardCall travels to the shard (SPSC ring), runs there, travels
// back and finishes on the control thread, which alone allocates and frees it. Events go the other way only.
// (Seastar's submit_to, reduced to what is needed here.)
#pragma once

#include <array>
#include <cstdint>

#include "base/verbs_types.h"

namespace rocemu::engine {

class Shard;

class ShardCall {
  public:
    virtual ~ShardCall() = default;
    // On the shard. False: not finished, run again in the next turn (destroying a QP whose payload jobs are out,
    // flushing many WQEs): each turn is bounded.
    virtual bool on_shard(Shard& shard) = 0;
    // On the control thread, after on_shard returned true.
    virtual void on_control() {}
};

enum class ShardEventKind : uint8_t {
    Completion,  // a channel's CQ has an event: {session, object = channel, cookie}
    Async,       // {session, object = context, cookie = element, async}
    Neighbour,   // an ARP or ND message told a MAC address: {object = device, address, mac}
};

struct ShardEvent {
    ShardEventKind kind = ShardEventKind::Completion;
    AsyncEvent async = AsyncEvent::CqErr;
    uint32_t session = 0;
    uint32_t object = 0;
    uint64_t cookie = 0;
    std::array<uint8_t, 16> address{};
    std::array<uint8_t, 6> mac{};
};

}  // namespace rocemu::engine
