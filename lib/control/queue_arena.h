// SPDX-License-Identifier: BSD-3-Clause
// QueueArena: memory for the queues of one session, cut from shared regions. Grows by new regions (never by resizing
// one), up to the session's quota; a block that was used before is zeroed again before it is given out.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "abi/queues.h"
#include "control/shared_region.h"
#include "engine/setup.h"

namespace rocemu::control {

struct QueueBlock {
    uint32_t region = 0;  // number in the session; region 0 is not of the arena
    uint64_t offset = 0;
    uint64_t bytes = 0;  // as allocated
    std::byte* address = nullptr;
};

// Bytes of a work queue: header and slots.
[[nodiscard]] constexpr uint64_t queue_bytes(uint32_t entries, uint32_t stride) {
    const uint64_t bytes = sizeof(abi::QueueHeader) + uint64_t{entries} * stride;
    return (bytes + abi::kCacheLine - 1) / abi::kCacheLine * abi::kCacheLine;
}
[[nodiscard]] inline engine::QueueView view_of(std::byte* base, uint32_t entries, uint32_t stride) {
    return {reinterpret_cast<abi::QueueHeader*>(base), base + sizeof(abi::QueueHeader), entries, stride};
}

class QueueArena {
  public:
    static constexpr uint64_t kAlign = 128;

    explicit QueueArena(uint64_t quota_bytes) : quota_(quota_bytes) {}

    // 0, ENOMEM (quota) or another errno.
    int allocate(uint64_t bytes, QueueBlock& block);
    // For the reply that tells of the block: its region's size and descriptor, if no reply has carried them yet; else 0 and
    // none. Replies overtake each other, so it is the first that is sent, not that of the block for which the region was made.
    uint64_t introduce(const QueueBlock& block, std::vector<UniqueFd>& fds);
    void free(const QueueBlock& block);
    // Nothing is cut from the block's region any more; it goes with the last block in it, and its number is used again. For
    // a region that the application could not map: its descriptor is sent once.
    void retire(const QueueBlock& block);
    [[nodiscard]] uint64_t used() const { return used_; }
    [[nodiscard]] uint64_t mapped() const { return mapped_; }

  private:
    struct Region {
        std::unique_ptr<SharedRegion> memory;  // nullptr: none has this number now
        std::map<uint64_t, uint64_t> holes;  // offset -> bytes, never adjacent
        uint64_t touched = 0;                // bytes behind it were never given out
        uint64_t used = 0;
        bool retired = false;
    };
    bool take(uint32_t index, uint64_t bytes, QueueBlock& block);

    uint64_t quota_;
    uint64_t mapped_ = 0, used_ = 0;
    std::vector<Region> regions_;
};

}  // namespace rocemu::control
