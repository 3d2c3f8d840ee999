// SPDX-License-Identifier: BSD-3-Clause
// QueueReader: the consumer side of one queue that an application fills. Our own copy of sizes, our own index;
// `header->producer` is only ever compared. Read abi/queues.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/setup.h"

namespace rocemu::engine {

struct QueueReader {
    QueueView view;
    uint32_t consumer = 0;

    // WQEs that wait, or kBroken: the producer index is impossible (more than the queue holds).
    static constexpr uint32_t kBroken = 0xffffffff;
    [[nodiscard]] uint32_t available() const {
        if (view.header == nullptr) return 0;
        const uint32_t n = view.header->producer.load(std::memory_order_acquire) - consumer;
        return n <= view.entries ? n : kBroken;
    }
    [[nodiscard]] std::byte* slot() const {
        return view.slots + size_t{consumer & (view.entries - 1)} * view.stride;
    }
    void prefetch_header() const { __builtin_prefetch(view.header); }  // its producer index; nullptr does nothing
    // Those that wait, a few.
    void prefetch_slots() const {
        constexpr uint32_t kSlots = 4;
        for (uint32_t i = 0; i < std::min(available(), kSlots); ++i) prefetch_slot(i);
    }
    // The slot `ahead` behind the next one: its WQE, and where small payload of it begins.
    void prefetch_slot(uint32_t ahead) const {
        const std::byte* slot = view.slots + size_t{(consumer + ahead) & (view.entries - 1)} * view.stride;
        __builtin_prefetch(slot);
        __builtin_prefetch(slot + std::min(view.stride - 1, 64u));
    }
    void publish() { view.header->consumer.store(consumer, std::memory_order_release); }
    // RESET: both sides start again at 0 (abi/queues.h).
    void restart() { consumer = 0; }
};

}  // namespace rocemu::engine
