// SPDX-License-Identifier: BSD-3-Clause
// view_of: a frame as the QP it is for sees it: a RoCE packet, or for a raw packet QP the whole frame. Of frames that
// were checked when they came and are looked at again. And how long a frame is needed.
#pragma once

#include "engine/qp_record.h"
#include "wire/parse.h"
#include "wire/raw_frame.h"

namespace rocemu::engine {

[[nodiscard]] inline bool view_of(const QpRecord& record, const Frame& frame, wire::PacketView& view) {
    if (!record.raw()) return wire::parse_frame({frame.data, frame.length}, view).ok();
    view = wire::raw_view({frame.data, frame.length});
    return true;
}

// The core's requests for this packet may read from its frame, which must not be freed before they are done. The area
// in front of a datagram is placed too, also where nothing is behind it (transport/ud_responder.cpp).
[[nodiscard]] inline bool is_read_later(const wire::PacketView& packet) {
    return !packet.payload.empty() || (packet.op != nullptr && packet.op->transport == wire::Transport::Ud);
}

}  // namespace rocemu::engine
