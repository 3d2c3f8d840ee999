// SPDX-License-Identifier: BSD-3-Clause
// DeadlineHeap: one deadline per slot, the earliest on top. A binary heap with a position per slot, so that changing
// or dropping a deadline costs log n and no stale entries gather. All memory is allocated at construction.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"

namespace rocemu::cm {

class DeadlineHeap {
  public:
    explicit DeadlineHeap(uint32_t slots) : position_(slots, kNone) { heap_.reserve(slots); }

    [[nodiscard]] Instant earliest() const { return heap_.empty() ? kNever : heap_.front().at; }
    // Precondition: earliest() != kNever.
    [[nodiscard]] uint32_t earliest_slot() const { return heap_.front().slot; }

    // kNever removes.
    void set(uint32_t slot, Instant at) {
        const uint32_t place = position_[slot];
        if (at == kNever) {
            if (place != kNone) remove(place);
        } else if (place == kNone) {
            heap_.push_back({at, slot});
            position_[slot] = static_cast<uint32_t>(heap_.size() - 1);
            up(position_[slot]);
        } else {
            heap_[place].at = at;
            down(place);
            up(place);
        }
    }

  private:
    struct Entry {
        Instant at;
        uint32_t slot;
    };
    static constexpr uint32_t kNone = ~0u;

    void remove(uint32_t place) {
        const auto last = static_cast<uint32_t>(heap_.size() - 1);
        exchange(place, last);
        position_[heap_.back().slot] = kNone;
        heap_.pop_back();
        if (place != last) {
            down(place);
            up(place);
        }
    }
    void exchange(uint32_t a, uint32_t b) {
        std::swap(heap_[a], heap_[b]);
        position_[heap_[a].slot] = a;
        position_[heap_[b].slot] = b;
    }
    void up(uint32_t place) {
        for (; place > 0 && heap_[place].at < heap_[(place - 1) / 2].at; place = (place - 1) / 2)
            exchange(place, (place - 1) / 2);
    }
    void down(uint32_t place) {
        for (;;) {
            uint32_t least = place;
            for (uint32_t child = 2 * place + 1; child <= 2 * place + 2; ++child)
                if (child < heap_.size() && heap_[child].at < heap_[least].at) least = child;
            if (least == place) return;
            exchange(place, least);
            place = least;
        }
    }

    std::vector<Entry> heap_;
    std::vector<uint32_t> position_;
};

}  // namespace rocemu::cm
