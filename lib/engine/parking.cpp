// SPDX-License-Identifier: BSD-3-Clause
// See parking.h. A parked frame was parsed and checked when it came; it is parsed again when its turn comes, which is
// cheaper than keeping what was found. HeldFrame::last_tag holds the time of arrival here.
#include "engine/parking.h"

#include <array>
#include <optional>

#include "engine/qp_record.h"
#include "engine/receive_offer.h"
#include "wire/parse.h"

namespace rocemu::engine {

namespace {
constexpr uint32_t kBurst = 32;  // frames whose payload is placed together

Instant arrival_of(const HeldFrame& f) {
    return Instant{static_cast<int64_t>(f.last_tag)};
}
}  // namespace

bool Parking::wants(const QpRecord& record, const wire::OpcodeInfo& op) {
    return record.unacked() && (record.parked.head != nullptr || record.qp.must_wait(op));
}

bool Parking::park(QpRecord& record, Frame& frame, Instant now) {
    if (frames_.room() == 0 || record.parked_count >= kPerQp) return false;
    frames_.append(record.parked, frame);
    record.parked.tail->last_tag = static_cast<uint64_t>(now.ns);
    ++record.parked_count;
    frame.data = nullptr;
    return true;
}

bool Parking::deliver(QpRecord& record, Instant now) {
    bool any = false;
    bool more = record.parked.head != nullptr;
    while (more) {
        std::array<Frame, kBurst> frames;
        std::array<Frame*, kBurst> with_payload;
        uint32_t count = 0, payloads = 0;
        while (count < kBurst && record.parked.head != nullptr) {
            const HeldFrame& oldest = *record.parked.head;
            wire::PacketView view;
            const Frame& f = oldest.frame;
            const bool readable = wire::parse_frame({f.data, f.length}, view).ok();
            std::optional<ReceiveOffer> offer;
            if (readable) offer.emplace(record, *view.op, completions_);
            const bool late = now - arrival_of(oldest) >= kPatience;
            if (readable && !late && (record.qp.must_wait(*view.op) || !placement_.admits(record))) break;
            frames[count] = frames_.pop(record.parked);
            --record.parked_count;
            if (!readable || !placement_.admits(record)) {
                record.device->counters.add(stats::Counter::responder_backlog_drops);
            } else {
                record.qp.handle_packet(view, now);
                if (!view.payload.empty()) with_payload[payloads++] = &frames[count];
            }
            ++count;
        }
        if (count == 0) break;
        any = true;
        more = count == kBurst;
        placement_.run(record, {with_payload.data(), payloads}, now);
        for (uint32_t i = 0; i < count; ++i)
            if (frames[i].data != nullptr) record.device->cache.free({&frames[i], 1});
    }
    return any;
}

Instant Parking::deadline(const QpRecord& record) {
    return record.parked.head == nullptr ? kNever : arrival_of(*record.parked.head) + kPatience;
}

void Parking::forget(QpRecord& record) {
    while (record.parked.head != nullptr) {
        Frame frame = frames_.pop(record.parked);
        record.device->cache.free({&frame, 1});
    }
    record.parked_count = 0;
}

}  // namespace rocemu::engine
