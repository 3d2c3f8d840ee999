// SPDX-License-Identifier: BSD-3-Clause
// See sge_cursor.h. SGE lists are short (most often one element), so the walk starts at the front each time: the place
// in the message alone decides, and going back for a retransmission needs no state.
#include "transport/sge_cursor.h"

#include <algorithm>

namespace rocemu::transport {

SgeStatus resolve_range(const memory::KeyTable& keys, memory::PdId pd, std::span<const Sge> sges, uint64_t offset,
                        uint64_t length, uint32_t need, std::span<memory::Segment> out, uint32_t& count) {
    count = 0;
    for (const Sge& sge : sges) {
        if (length == 0) break;
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        const auto take = static_cast<uint32_t>(std::min<uint64_t>(sge.length - offset, length));
        if (count == out.size()) return SgeStatus::NoRoom;
        if (sge.addr + offset < sge.addr) return SgeStatus::BadKey;
        if (keys.resolve(sge.lkey, pd, sge.addr + offset, take, need, out[count]) != memory::KeyStatus::Ok)
            return SgeStatus::BadKey;
        ++count;
        length -= take;
        offset = 0;
    }
    return length == 0 ? SgeStatus::Ok : SgeStatus::Short;
}

}  // namespace rocemu::transport
