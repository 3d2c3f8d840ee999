// SPDX-License-Identifier: BSD-3-Clause
// FixedRing: a FIFO whose storage is allocated once, at construction (capacity rounded up to a power of two).
// Elements are reached by their free-running 64-bit sequence number, so an index stays valid while its element is in
// the ring: the transport core keeps WQEs, READ resources and pending completions in such rings. Single owner, no
// locks. Whenever the ring has run empty it begins with its first slot again: one that is never very full stays in a
// few cache lines, however long it is. (Of a thousand QPs that all have something to do, that is most of what is
// touched.)
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <utility>

#include "base/fixed_array.h"

namespace rocemu {

template <typename T>
class FixedRing {
  public:
    explicit FixedRing(uint32_t capacity, std::pmr::memory_resource* memory = std::pmr::new_delete_resource())
        : limit_(capacity), mask_(std::bit_ceil(capacity ? capacity : 1u) - 1), slots_(size_t{mask_} + 1, memory) {}

    [[nodiscard]] uint32_t capacity() const { return limit_; }
    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(tail_ - head_); }
    [[nodiscard]] bool empty() const { return head_ == tail_; }
    [[nodiscard]] bool full() const { return size() >= limit_; }
    [[nodiscard]] uint32_t room() const { return limit_ - size(); }

    // Number of slots, and the slot of an element: for arrays that run beside the ring.
    [[nodiscard]] uint32_t slots() const { return mask_ + 1; }
    [[nodiscard]] uint32_t slot_of(uint64_t seq) const { return static_cast<uint32_t>(seq - base_) & mask_; }

    // Sequence numbers: head() is the oldest element, tail() one past the newest.
    [[nodiscard]] uint64_t head() const { return head_; }
    [[nodiscard]] uint64_t tail() const { return tail_; }
    [[nodiscard]] bool contains(uint64_t seq) const { return seq - head_ < tail_ - head_; }

    T& at(uint64_t seq) {
        assert(contains(seq));
        return slots_[slot_of(seq)];
    }
    const T& at(uint64_t seq) const {
        assert(contains(seq));
        return slots_[slot_of(seq)];
    }
    // Of an element that is there, or the one that comes next: asks for its first cache line.
    void prefetch(uint64_t seq) const { __builtin_prefetch(slots_.data() + slot_of(seq)); }
    T& front() { return at(head_); }
    const T& front() const { return at(head_); }
    T& back() { return at(tail_ - 1); }

    // The slot is not cleared: the caller overwrites what it needs. Precondition: !full().
    T& push() {
        assert(!full());
        return slots_[slot_of(tail_++)];
    }
    void push(T v) { push() = std::move(v); }
    void pop(uint32_t count = 1) {
        assert(size() >= count);
        head_ += count;
        if (head_ == tail_) base_ = tail_;
    }
    void clear() { head_ = base_ = tail_; }
    // The oldest elements, as far as they lie side by side.
    [[nodiscard]] std::span<T> front_run() {
        const uint32_t first = slot_of(head_);
        return {&slots_[first], std::min(size(), slots() - first)};
    }
    // Forgets the newest elements, from `tail` on. Precondition: head() <= tail <= tail().
    void truncate(uint64_t tail) {
        assert(tail - head_ <= tail_ - head_);
        tail_ = tail;
        if (head_ == tail_) base_ = tail_;
    }

  private:
    uint64_t head_ = 0, tail_ = 0;
    uint64_t base_ = 0;  // the sequence number that has slot 0, or would have
    uint32_t limit_;
    uint32_t mask_;
    FixedArray<T> slots_;
};

}  // namespace rocemu
