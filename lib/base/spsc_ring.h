// SPDX-License-Identifier: BSD-3-Clause
// SpscRing: bounded FIFO between exactly one producer and one consumer thread, for bulk transfer of small values.
// Each side caches the other's index, so that a burst touches the shared cache lines once.
// Memory order: an index is stored with release by its owner and loaded with acquire by the partner.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rocemu {

template <typename T>
class SpscRing {
  public:
    explicit SpscRing(uint32_t capacity)
        : capacity_(std::bit_ceil(capacity ? capacity : 1u)), slots_(new T[capacity_]()) {}

    // Producer only: how many fit now.
    [[nodiscard]] uint32_t room() {
        const uint32_t tail = tail_.load(std::memory_order_relaxed);
        if (capacity_ - (tail - head_seen_) == 0) head_seen_ = head_.load(std::memory_order_acquire);
        return capacity_ - (tail - head_seen_);
    }
    // Producer only: takes the first n, returns n.
    size_t push(std::span<const T> items) {
        const uint32_t tail = tail_.load(std::memory_order_relaxed);
        if (capacity_ - (tail - head_seen_) < items.size()) head_seen_ = head_.load(std::memory_order_acquire);
        const size_t fit = capacity_ - (tail - head_seen_);
        const size_t n = items.size() < fit ? items.size() : fit;
        for (size_t i = 0; i < n; ++i) slots_[(tail + i) & (capacity_ - 1)] = items[i];
        if (n != 0) tail_.store(tail + static_cast<uint32_t>(n), std::memory_order_release);
        return n;
    }
    // Consumer only: fills the first n, returns n.
    size_t pop(std::span<T> items) {
        const uint32_t head = head_.load(std::memory_order_relaxed);
        if (tail_seen_ - head < items.size()) tail_seen_ = tail_.load(std::memory_order_acquire);
        const size_t ready = tail_seen_ - head;
        const size_t n = items.size() < ready ? items.size() : ready;
        for (size_t i = 0; i < n; ++i) items[i] = slots_[(head + i) & (capacity_ - 1)];
        if (n != 0) head_.store(head + static_cast<uint32_t>(n), std::memory_order_release);
        return n;
    }
    // Consumer only.
    [[nodiscard]] bool empty() const {
        return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_relaxed);
    }

  private:
    const uint32_t capacity_;
    const std::unique_ptr<T[]> slots_;
    alignas(64) std::atomic<uint32_t> tail_{0};  // producer writes
    uint32_t head_seen_ = 0;                     // producer's copy of head_
    alignas(64) std::atomic<uint32_t> head_{0};  // consumer writes
    uint32_t tail_seen_ = 0;                     // consumer's copy of tail_
};

}  // namespace rocemu
