// SPDX-License-Identifier: BSD-3-Clause
// Link: one direction of a simulated wire. Frames are bytes; they arrive after a latency and their time on the wire,
// and chance or a test's filter may drop, duplicate, delay or corrupt them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "tests/sim/random.h"
#include "wire/packet_view.h"

namespace rocemu::sim {

using FrameBytes = std::shared_ptr<std::vector<std::byte>>;

struct LinkFaults {
    double drop = 0, duplicate = 0, reorder = 0, corrupt = 0;
    Duration reorder_delay = 20 * kMicrosecond;  // at most this much late
};

struct LinkCounts {
    uint64_t sent = 0, dropped = 0, duplicated = 0, reordered = 0, corrupted = 0, delivered = 0;
};

enum class Fate : uint8_t { Pass, Drop, Duplicate };

class Link {
  public:
    explicit Link(uint64_t seed) : random_(seed) {}

    LinkFaults faults;
    Duration latency = 5 * kMicrosecond;
    int64_t picoseconds_per_byte = 80;  // 100 Gbit/s
    // A test's own hand on the wire: sees each frame that is sent.
    std::function<Fate(const wire::PacketView&)> filter;
    LinkCounts counts;

    void send(Instant now, FrameBytes frame, const wire::PacketView& view) {
        ++counts.sent;
        const Fate fate = filter ? filter(view) : Fate::Pass;
        const auto wire_time = static_cast<Duration>(frame->size()) * picoseconds_per_byte / 1000 + 1;
        free_at_ = std::max(free_at_, now) + wire_time;
        if (fate == Fate::Drop || random_.chance(faults.drop)) {
            ++counts.dropped;
            return;
        }
        Instant at = free_at_ + latency;
        if (random_.chance(faults.reorder)) {
            ++counts.reordered;
            at = at + static_cast<Duration>(random_.between(1, static_cast<uint64_t>(faults.reorder_delay)));
        }
        if (fate == Fate::Duplicate || random_.chance(faults.duplicate)) {
            ++counts.duplicated;
            arrivals_.emplace(at + static_cast<Duration>(random_.below(10 * kMicrosecond)), frame);
        }
        if (random_.chance(faults.corrupt)) {
            ++counts.corrupted;
            frame = std::make_shared<std::vector<std::byte>>(*frame);
            const uint64_t bit = random_.below(frame->size() * 8);
            (*frame)[bit / 8] ^= std::byte{1} << (bit % 8);
        }
        arrivals_.emplace(at, std::move(frame));
    }
    [[nodiscard]] Instant next_arrival() const { return arrivals_.empty() ? kNever : arrivals_.begin()->first; }
    FrameBytes receive(Instant now) {
        if (next_arrival() > now) return nullptr;
        FrameBytes f = std::move(arrivals_.begin()->second);
        arrivals_.erase(arrivals_.begin());
        ++counts.delivered;
        return f;
    }

  private:
    Random random_;
    Instant free_at_{0};
    std::multimap<Instant, FrameBytes> arrivals_;  // equal instants keep their order
};

}  // namespace rocemu::sim
