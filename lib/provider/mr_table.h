// SPDX-License-Identifier: BSD-3-Clause
// MrTable: the memory regions of this process by key, so that posting can tell which addresses it may read without a
// signal. A hint, not a judgement: keys, domains and bounds are judged by the daemon. Regions of other processes
// (imported ones) are never entered.
#pragma once

#include <atomic>
#include <cstdint>

#include "provider/mutex.h"

namespace rocemu::provider {

class MrTable {
  public:
    MrTable() = default;
    MrTable(const MrTable&) = delete;
    MrTable& operator=(const MrTable&) = delete;

    // `iova`: the address that WRs use for the byte at `va`. A key that does not fit is forgotten: nothing depends on it.
    void insert(uint32_t key, uint64_t va, uint64_t iova, uint64_t length);
    void remove(uint32_t key);
    // The part of it that the daemon reads by itself as fast as we could: none, until this is called. Nobody posts meanwhile.
    void set_mapped(uint32_t key, uint64_t va, uint64_t length);
    [[nodiscard]] bool is_mapped(uint32_t key, uint64_t address, uint32_t length) const {
        const Entry* e = entry(key);
        if (e == nullptr) return false;
        const uint64_t offset = address - e->iova.load(std::memory_order_relaxed) - e->mapped_from.load(std::memory_order_relaxed);
        const uint64_t size = e->mapped.load(std::memory_order_relaxed);
        return offset <= size && length <= size - offset;
    }
    // Where [address, address + length) of region `key` lies in this process; nullptr: not known. Any thread, no lock;
    // against a registration that changes meanwhile the answer may be either.
    [[nodiscard]] const std::byte* find(uint32_t key, uint64_t address, uint32_t length) const {
        const Entry* e = entry(key);
        if (e == nullptr) return nullptr;
        const uint64_t offset = address - e->iova.load(std::memory_order_relaxed);
        const uint64_t size = e->length.load(std::memory_order_relaxed);
        if (offset > size || length > size - offset) return nullptr;
        return reinterpret_cast<const std::byte*>(e->va.load(std::memory_order_relaxed) + offset);
    }

  private:
    static constexpr uint32_t kChunk = 1024;  // keys (bits 31:8 are an index)
    static constexpr uint32_t kChunks = 4096;
    struct Entry {
        std::atomic<uint32_t> key;  // 0: free; stored last, with release
        std::atomic<uint64_t> va, iova, length;
        std::atomic<uint64_t> mapped_from, mapped;  // bytes from the region's first one on; how many
    };
    [[nodiscard]] const Entry* entry(uint32_t key) const {
        const uint32_t index = key >> 8;
        if (index >= kChunks * kChunk) return nullptr;
        const Entry* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
        if (chunk == nullptr) return nullptr;
        const Entry& e = chunk[index % kChunk];
        return key == 0 || e.key.load(std::memory_order_acquire) != key ? nullptr : &e;
    }

    Mutex lock_;
    std::atomic<Entry*> chunks_[kChunks] = {};  // never freed: sessions are not either
};

}  // namespace rocemu::provider
