// SPDX-License-Identifier: BSD-3-Clause
// See parking.h. HeldFrame::last_tag holds the time of arrival here.
#include "engine/parking.h"

#include <algorithm>
#include <array>

#include "engine/delivery.h"
#include "engine/frame_view.h"
#include "engine/qp_record.h"

namespace rocemu::engine {

namespace {
constexpr uint32_t kBurst = 32;  // frames whose payload is placed together

Instant arrival_of(const HeldFrame& f) {
    return Instant{static_cast<int64_t>(f.last_tag)};
}
}  // namespace

bool Parking::room_for(const QpRecord& record) const {
    return record.unacked() && frames_.room() != 0 && record.parked_count < kPerQp;
}

void Parking::park(QpRecord& record, Frame& frame, Instant now) {
    frames_.append(record.parked, frame);
    record.parked.tail->last_tag = static_cast<uint64_t>(now.ns);
    ++record.parked_count;
    frame.data = nullptr;
}

bool Parking::deliver(QpRecord& record, Instant now) {
    bool any = false;
    bool more = record.parked.head != nullptr;
    while (more) {
        std::array<Frame, kBurst> frames;
        std::array<Frame*, kBurst> read_later;
        uint32_t count = 0, reads = 0;
        while (count < kBurst && record.parked.head != nullptr) {
            const HeldFrame& oldest = *record.parked.head;
            const bool late = now - arrival_of(oldest) >= kPatience;
            const bool admitted = placement_.admits(record);
            if (!admitted && !late) break;
            wire::PacketView view;
            if (admitted && deliver_again(record, oldest.frame, view, completions_, now, {.may_wait = !late}) ==
                                Delivered::MustWait)
                break;
            frames[count] = frames_.pop(record.parked);
            --record.parked_count;
            if (!admitted)
                record.device->drop(frames[count], wire::DropReason::QueueFull);
            else if (is_read_later(view))
                read_later[reads++] = &frames[count];
            ++count;
        }
        if (count == 0) break;
        any = true;
        more = count == kBurst;
        placement_.run(record, {read_later.data(), reads}, now);
        for (uint32_t i = 0; i < count; ++i)
            if (frames[i].data != nullptr) record.device->cache.free({&frames[i], 1});
    }
    return any;
}

Instant Parking::deadline(const QpRecord& record, Instant now) {
    if (record.parked.head == nullptr) return kNever;
    const Instant end = arrival_of(*record.parked.head) + kPatience;
    return record.srq == nullptr ? end : std::min(end, now + kSrqLook);
}

void Parking::forget(QpRecord& record) {
    while (record.parked.head != nullptr) {
        Frame frame = frames_.pop(record.parked);
        record.device->cache.free({&frame, 1});
    }
    record.parked_count = 0;
}

}  // namespace rocemu::engine
