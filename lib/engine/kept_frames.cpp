// SPDX-License-Identifier: BSD-3-Clause
// See kept_frames.h.
#include "engine/kept_frames.h"

#include "engine/delivery.h"
#include "engine/qp_record.h"

namespace rocemu::engine {

namespace {
uint64_t key_of(Psn psn, bool response) {
    return uint64_t{response} << 32 | psn.value();
}
}  // namespace

bool KeptFrames::room_for(const QpRecord& record) const {
    return frames_.room() != 0 && record.session->frames_kept < kPerSession;
}

void KeptFrames::keep(QpRecord& record, const wire::PacketView& packet, Frame& frame) {
    frames_.append(record.kept, frame, key_of(Psn(packet.bth.psn), packet.op->is_response()));
    ++record.session->frames_kept;
    frame.data = nullptr;
}

bool KeptFrames::replay(QpRecord& record, std::span<Frame, kPerReplay> out, uint32_t& count, Instant now) {
    bool any = false;
    count = 0;
    while (record.kept.head != nullptr && count < kPerReplay) {
        const auto next = record.qp.poll_kept();
        if (!next) break;
        Frame frame;
        if (!frames_.take(record.kept, key_of(next->psn, next->response), frame)) continue;
        --record.session->frames_kept;
        any = true;
        (void)deliver_again(record, frame, view_, completions_, now);
        if (!view_.payload.empty())
            out[count++] = frame;
        else
            record.device->cache.free({&frame, 1});
    }
    return any;
}

void KeptFrames::forget(QpRecord& record) {
    while (record.kept.head != nullptr) {
        Frame frame = frames_.pop(record.kept);
        --record.session->frames_kept;
        record.device->cache.free({&frame, 1});
    }
}

}  // namespace rocemu::engine
