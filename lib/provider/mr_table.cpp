// SPDX-License-Identifier: BSD-3-Clause
// See mr_table.h.
#include "provider/mr_table.h"

#include <new>

namespace rocemu::provider {

void MrTable::insert(uint32_t key, uint64_t va, uint64_t iova, uint64_t length) {
    const uint32_t index = key >> 8;
    if (key == 0 || index >= kChunks * kChunk) return;
    Guard guard(lock_);
    std::atomic<Entry*>& place = chunks_[index / kChunk];
    if (place.load(std::memory_order_relaxed) == nullptr) {
        auto* chunk = new (std::nothrow) Entry[kChunk]{};
        if (chunk == nullptr) return;
        place.store(chunk, std::memory_order_release);
    }
    Entry& e = place.load(std::memory_order_relaxed)[index % kChunk];
    e.key.store(0, std::memory_order_relaxed);
    e.va.store(va, std::memory_order_relaxed);
    e.iova.store(iova, std::memory_order_relaxed);
    e.length.store(length, std::memory_order_relaxed);
    e.mapped_from.store(0, std::memory_order_relaxed);
    e.mapped.store(0, std::memory_order_relaxed);
    e.key.store(key, std::memory_order_release);
}

void MrTable::set_mapped(uint32_t key, uint64_t va, uint64_t length) {
    Guard guard(lock_);
    if (entry(key) == nullptr) return;  // it was forgotten
    Entry& e = chunks_[(key >> 8) / kChunk].load(std::memory_order_relaxed)[(key >> 8) % kChunk];
    e.mapped_from.store(va - e.va.load(std::memory_order_relaxed), std::memory_order_relaxed);
    e.mapped.store(length, std::memory_order_relaxed);
}

void MrTable::remove(uint32_t key) {
    const uint32_t index = key >> 8;
    if (index >= kChunks * kChunk) return;
    Guard guard(lock_);
    Entry* chunk = chunks_[index / kChunk].load(std::memory_order_relaxed);
    if (chunk != nullptr && chunk[index % kChunk].key.load(std::memory_order_relaxed) == key)
        chunk[index % kChunk].key.store(0, std::memory_order_release);
}

}  // namespace rocemu::provider
