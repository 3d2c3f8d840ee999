// SPDX-License-Identifier: BSD-3-Clause
// view_of: a frame as the QP it is for sees it: a RoCE packet, or for a raw packet QP the whole frame. Of frames that
// were checked when they came and are looked at again.
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

}  // namespace rocemu::engine
