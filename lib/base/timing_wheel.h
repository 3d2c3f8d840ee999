// SPDX-License-Identifier: BSD-3-Clause
// TimingWheel: deadlines of many QPs, set and cancelled in constant time without allocation (nodes live in their
// owners). Four levels of 256 slots; a slot of the lowest level is 4.096 us wide, the unit of the local ACK timeout
// (IBTA 9.7.6.1.3), so level spans are 1 ms, 268 ms, 69 s, 4.9 h. A node fires at the first expire() past the end of
// its slot: never early, late by at most one slot. Single owner, no clock: `now` comes as an argument. Scheme:
// hierarchical wheel with cascading (Varghese and Lauck, 1987).
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>

#include "base/time.h"

namespace rocemu {

struct TimerNode {
    TimerNode* next = nullptr;
    TimerNode* prev = nullptr;
    Instant when = kNever;  // meaningful while armed
    [[nodiscard]] bool armed() const { return next != nullptr; }
};

class TimingWheel {
  public:
    static constexpr uint32_t kSlotShift = 12;  // 4096 ns
    static constexpr uint32_t kLevels = 4, kSlotBits = 8, kSlots = 1u << kSlotBits;

    explicit TimingWheel(Instant origin = {}) : tick_(tick_of(origin)) {
        for (auto& level : slots_)
            for (auto& head : level) head.next = head.prev = &head;
    }
    TimingWheel(const TimingWheel&) = delete;
    TimingWheel& operator=(const TimingWheel&) = delete;

    // Arms or moves the node. kNever cancels.
    void set(TimerNode& node, Instant when) {
        if (node.armed()) unlink(node);
        if (when == kNever) return;
        node.when = when;
        insert(node);
        ++armed_;
    }
    void cancel(TimerNode& node) {
        if (node.armed()) unlink(node);
    }
    [[nodiscard]] uint32_t armed() const { return armed_; }

    // Calls fire(TimerNode&) for nodes that are due, at most `limit` of them; the node is not armed any more and may be
    // set again. Returns the number; if it equals `limit`, call again.
    template <typename Fire>
    uint32_t expire(Instant now, uint32_t limit, Fire&& fire) {
        const uint64_t target = tick_of(now);
        uint32_t fired = 0;
        if (armed_ == 0) {
            used_ = {};  // bits of cancelled nodes would be taken for later slots after the jump
            if (target > tick_) tick_ = target;
            return 0;
        }
        while (tick_ < target) {
            TimerNode& head = slots_[0][tick_ & (kSlots - 1)];
            while (head.next != &head) {
                if (fired == limit) return fired;
                TimerNode& node = *head.next;
                unlink(node);
                ++fired;
                fire(node);
            }
            clear_bit(0, static_cast<uint32_t>(tick_ & (kSlots - 1)));
            advance(target);
        }
        return fired;
    }

    // Not later than the earliest deadline (exact for those within the lowest level); kNever if none is armed.
    [[nodiscard]] Instant next_deadline() const {
        if (armed_ == 0) return kNever;
        for (uint32_t level = 0; level < kLevels; ++level) {
            const uint32_t shift = level * kSlotBits;
            const auto from = static_cast<uint32_t>((tick_ >> shift) & (kSlots - 1));
            const int distance = next_bit(level, level == 0 ? from : (from + 1) & (kSlots - 1));
            if (distance < 0) continue;
            const uint64_t slots = static_cast<uint64_t>(distance) + (level == 0 ? 0 : 1);
            // Level 0: due when its slot has passed. Above: when it must be spread over the level below.
            const uint64_t tick = level == 0 ? tick_ + slots + 1 : ((tick_ >> shift) + slots) << shift;
            return {static_cast<int64_t>(tick << kSlotShift)};
        }
        return {static_cast<int64_t>((tick_ + 1) << kSlotShift)};
    }

  private:
    static uint64_t tick_of(Instant t) { return static_cast<uint64_t>(t.ns < 0 ? 0 : t.ns) >> kSlotShift; }

    void insert(TimerNode& node) {
        uint64_t tick = tick_of(node.when);
        if (tick < tick_) tick = tick_;
        constexpr uint64_t kSpan = (uint64_t{1} << (kLevels * kSlotBits)) - 1;
        if (tick - tick_ > kSpan) tick = tick_ + kSpan;  // further away: looked at again when that slot is reached
        // The level is the highest digit in which the tick differs from the current one.
        const uint64_t differ = tick ^ tick_;
        uint32_t level = differ == 0 ? 0 : (static_cast<uint32_t>(std::bit_width(differ)) - 1) / kSlotBits;
        if (level >= kLevels) level = kLevels - 1;
        const auto slot = static_cast<uint32_t>((tick >> (level * kSlotBits)) & (kSlots - 1));
        TimerNode& head = slots_[level][slot];
        node.prev = head.prev;
        node.next = &head;
        head.prev->next = &node;
        head.prev = &node;
        used_[level][slot / 64] |= uint64_t{1} << (slot % 64);
    }
    void unlink(TimerNode& node) {
        node.prev->next = node.next;
        node.next->prev = node.prev;
        node.next = node.prev = nullptr;
        --armed_;
    }
    void clear_bit(uint32_t level, uint32_t slot) { used_[level][slot / 64] &= ~(uint64_t{1} << (slot % 64)); }

    // Distance from `from` (itself included, wrapping) to the next used slot; -1: none. A bit may be stale (its nodes
    // were cancelled): that makes next_deadline early, never late.
    [[nodiscard]] int next_bit(uint32_t level, uint32_t from) const {
        for (uint32_t i = 0; i <= kSlots / 64; ++i) {
            const uint32_t word = (from / 64 + i) % (kSlots / 64);
            uint64_t bits = used_[level][word];
            if (i == 0) bits &= ~uint64_t{0} << (from % 64);
            if (i == kSlots / 64) bits &= (uint64_t{1} << (from % 64)) - 1;
            if (bits == 0) continue;
            const auto slot = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
            return static_cast<int>((slot - from) & (kSlots - 1));
        }
        return -1;
    }

    // To the next slot that may hold something, at most to `target`; spreads slots of higher levels on the way.
    void advance(uint64_t target) {
        const auto from = static_cast<uint32_t>((tick_ + 1) & (kSlots - 1));
        const uint64_t turn_end = (tick_ | (kSlots - 1)) + 1;  // where level 1 must be looked at
        const int distance = next_bit(0, from);
        uint64_t next = turn_end;
        if (distance >= 0 && tick_ + 1 + static_cast<uint64_t>(distance) < turn_end)
            next = tick_ + 1 + static_cast<uint64_t>(distance);
        tick_ = next < target ? next : target;
        if ((tick_ & (kSlots - 1)) == 0) cascade();
    }
    void cascade() {
        for (uint32_t level = 1; level < kLevels; ++level) {
            const auto slot = static_cast<uint32_t>((tick_ >> (level * kSlotBits)) & (kSlots - 1));
            TimerNode& head = slots_[level][slot];
            clear_bit(level, slot);
            TimerNode* node = head.next;
            head.next = head.prev = &head;
            while (node != &head) {
                TimerNode* next = node->next;
                insert(*node);
                node = next;
            }
            if (slot != 0) break;
        }
    }

    uint64_t tick_;
    uint32_t armed_ = 0;
    std::array<std::array<TimerNode, kSlots>, kLevels> slots_;
    std::array<std::array<uint64_t, kSlots / 64>, kLevels> used_{};
};

}  // namespace rocemu
