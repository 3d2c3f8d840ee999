// SPDX-License-Identifier: BSD-3-Clause
// Delivery: how a packet gets into the core of its QP, whether it comes from the port, waited for its receive (Parking),
// came too early (KeptFrames) or is the copy of a group's packet. As long as the core looks at it the receive WQE it may
// need is there: from the QP's own queue, or lent by the shared one, which gets it back unless the core took it.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "engine/port.h"
#include "wire/packet_view.h"

namespace rocemu::engine {

class Completions;
struct QpRecord;

enum class Delivered : uint8_t {
    Done,      // the core has had it
    Kept,      // the core wants it later: the caller keeps the frame until Qp::poll_kept names it
    MustWait,  // nothing has happened: the core would drop it for want of a receive
};

struct DeliveryRules {
    bool may_keep = false;
    bool may_wait = false;
};

Delivered deliver(QpRecord& record, const wire::PacketView& packet, Completions& completions, Instant now,
                  DeliveryRules rules);
// Neither does the packet need a receive nor the peer to be told how many there are: the core can have it as it is, if
// the receives are not lent by a shared queue.
[[nodiscard]] inline bool needs_no_receive(const wire::PacketView& packet) {
    const wire::OpcodeInfo& op = *packet.op;
    return !op.consumes_receive() && !op.takes_resource() && !packet.bth.ack_req;
}
// A frame that waited: parsed again into `view`, which is cheaper than keeping what was found. Its checks it passed when
// it came.
Delivered deliver_again(QpRecord& record, const Frame& frame, wire::PacketView& view, Completions& completions,
                        Instant now, DeliveryRules rules = {});

}  // namespace rocemu::engine
