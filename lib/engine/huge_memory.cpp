// SPDX-License-Identifier: BSD-3-Clause
// See huge_memory.h.
#include "engine/huge_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define ROCEMU_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROCEMU_ADDRESS_SANITIZER 1
#endif
#endif

namespace rocemu::engine {

namespace {

size_t round_up(size_t v, size_t to) {
    return (v + to - 1) / to * to;
}

// Aligned to a huge page: the kernel uses none that is not.
std::byte* map_aligned(size_t bytes) {
    const size_t most = bytes + HugeMemory::kHugePage;
    void* p = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(p);
    const size_t before = round_up(reinterpret_cast<uintptr_t>(begin), HugeMemory::kHugePage) -
                          reinterpret_cast<uintptr_t>(begin);
    if (before != 0) munmap(begin, before);
    munmap(begin + before + bytes, most - before - bytes);
    madvise(begin + before, bytes, MADV_HUGEPAGE);  // refused: small pages, as anywhere
    return begin + before;
}

}  // namespace

HugeMemory::~HugeMemory() {
    assert(used_ == 0);
    for (const auto& [at, bytes] : chunks_) munmap(at, bytes);
}

std::pmr::memory_resource* HugeMemory::or_checked() {
#if defined(ROCEMU_ADDRESS_SANITIZER)
    return std::pmr::new_delete_resource();
#else
    return this;
#endif
}

void HugeMemory::grow(size_t bytes) {
    // No larger than needed: a chunk goes back as a whole, and one QP that stays would hold it.
    const size_t size = round_up(bytes, kHugePage);
    std::byte* at = map_aligned(size);
    chunks_.emplace(at, size);
    mapped_ += size;
    add_hole(at, size);
}

void HugeMemory::add_hole(std::byte* at, size_t bytes) {
    holes_.emplace(at, bytes);
    by_size_.emplace(bytes, at);
}

HugeMemory::Holes::iterator HugeMemory::remove_hole(Holes::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    return holes_.erase(hole);
}

void* HugeMemory::do_allocate(size_t bytes, size_t alignment) {
    if (alignment > kGrain) throw std::bad_alloc();
    bytes = round_up(std::max<size_t>(bytes, 1), kGrain);
    if (by_size_.lower_bound({bytes, nullptr}) == by_size_.end()) grow(bytes);
    const auto [size, at] = *by_size_.lower_bound({bytes, nullptr});
    remove_hole(holes_.find(at));
    if (size > bytes) add_hole(at + bytes, size - bytes);
    used_ += bytes;
    return at;
}

void HugeMemory::do_deallocate(void* p, size_t bytes, size_t) {
    auto* at = static_cast<std::byte*>(p);
    bytes = round_up(std::max<size_t>(bytes, 1), kGrain);
    used_ -= bytes;
    const auto chunk = std::prev(chunks_.upper_bound(at));
    auto next = holes_.lower_bound(at);
    if (next != holes_.end() && next->first == at + bytes && next->first < chunk->first + chunk->second) {
        bytes += next->second;
        next = remove_hole(next);
    }
    if (next != holes_.begin()) {
        const auto before = std::prev(next);
        if (before->first >= chunk->first && before->first + before->second == at) {
            at = before->first;
            bytes += before->second;
            remove_hole(before);
        }
    }
    // Room for some QPs stays, or one that comes and goes would bring a chunk with it each time.
    const bool empty = bytes == chunk->second;
    if (!empty || mapped_ - used_ - bytes < kHugePage) return add_hole(at, bytes);
    munmap(at, bytes);
    mapped_ -= bytes;
    chunks_.erase(chunk);
}

}  // namespace rocemu::engine
