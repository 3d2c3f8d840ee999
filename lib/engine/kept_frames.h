// SPDX-License-Identifier: BSD-3-Clause
// KeptFrames: received frames that came too early, a list per QP, until the core asks for them again (Qp::poll_kept).
// Bounded per QP by the core (reorder_packets a direction), per session and per shard here; a packet for which there is
// no room is judged by the core at once, as if reordering were not tolerated. See docs/adr/0009-kept-packets.md.
#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"
#include "engine/held_frames.h"
#include "wire/packet_view.h"

namespace rocemu::engine {

class Completions;
struct QpRecord;

class KeptFrames {
  public:
    static constexpr uint32_t kPerShard = 4096;
    static constexpr uint32_t kPerSession = 512;
    static constexpr uint32_t kPerReplay = 128;  // more than a QP may keep

    explicit KeptFrames(Completions& completions) : completions_(completions) {}

    [[nodiscard]] bool room_for(const QpRecord& record) const;
    // The core keeps this packet: the frame passes to us and gets data = nullptr. Precondition: room_for().
    void keep(QpRecord& record, const wire::PacketView& packet, Frame& frame);
    // Hands in again what the core asks for. Frames with payload are put into `out`, `count` of them, in order; the
    // caller places and frees them. True if anything was handed in: an atomic has no payload, and is executed all the
    // same.
    bool replay(QpRecord& record, std::span<Frame, kPerReplay> out, uint32_t& count, Instant now);
    // The QP forgets what it kept.
    void forget(QpRecord& record);

  private:
    HeldFrames frames_{kPerShard};
    wire::PacketView view_;
    Completions& completions_;
};

}  // namespace rocemu::engine
