// SPDX-License-Identifier: BSD-3-Clause
// HugeMemory: where the state of a shard's QPs lies: side by side, in pieces that the kernel may back by huge pages.
// A thousand active QPs touch tens of thousands of small pages, more than any TLB holds. Best fit over the holes, which
// grow together again; a chunk that is empty goes back to the kernel if there is room elsewhere. Shard only; control
// calls only (it allocates its own bookkeeping). Where huge pages are off it is memory like any other. See madvise(2),
// MADV_HUGEPAGE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <set>

namespace rocemu::engine {

class HugeMemory final : public std::pmr::memory_resource {
  public:
    static constexpr size_t kHugePage = size_t{2} << 20;
    static constexpr size_t kGrain = 64;  // sizes and alignment: no two blocks share a cache line

    HugeMemory() = default;
    ~HugeMemory() override;
    HugeMemory(const HugeMemory&) = delete;
    HugeMemory& operator=(const HugeMemory&) = delete;

    // This, or the heap where AddressSanitizer watches it: that sees more where each block is by itself.
    [[nodiscard]] std::pmr::memory_resource* or_checked();
    [[nodiscard]] size_t mapped() const { return mapped_; }
    [[nodiscard]] size_t used() const { return used_; }

  private:
    using Holes = std::map<std::byte*, size_t>;

    // Throws std::bad_alloc.
    void* do_allocate(size_t bytes, size_t alignment) override;
    void do_deallocate(void* p, size_t bytes, size_t alignment) override;
    [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

    void grow(size_t bytes);
    void add_hole(std::byte* at, size_t bytes);
    Holes::iterator remove_hole(Holes::iterator hole);

    Holes chunks_;  // address -> bytes
    Holes holes_;   // likewise; never adjacent within a chunk
    std::set<std::pair<size_t, std::byte*>> by_size_;  // the same holes
    size_t mapped_ = 0, used_ = 0;
};

}  // namespace rocemu::engine
