// SPDX-License-Identifier: BSD-3-Clause
// QueueReader: the consumer side of one queue that an application fills. Our own copy of sizes, our own index;
// `header->producer` is only ever compared. Read abi/queues.h.
#pragma once

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
    void publish() { view.header->consumer.store(consumer, std::memory_order_release); }
    // RESET: both sides start again at 0 (abi/queues.h).
    void restart() { consumer = 0; }
};

}  // namespace rocemu::engine
