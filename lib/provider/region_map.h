// SPDX-License-Identifier: BSD-3-Clause
// RegionMap: the shared-memory regions of a session, mapped whole. Regions are made by the daemon and numbered by it;
// a number that comes again with a new descriptor replaces the old mapping (its queues are gone by then).
// Read lib/abi/messages.h (QueueRef) and lib/abi/queues.h.
#pragma once

#include <cstdint>
#include <vector>

#include "abi/messages.h"
#include "abi/queues.h"
#include "provider/fd_list.h"
#include "provider/mutex.h"

namespace rocemu::provider {

// A queue as this side sees it. Sizes are this side's own copies.
struct QueueView {
    abi::QueueHeader* header = nullptr;  // nullptr: the queue has no slots
    std::byte* slots = nullptr;
    uint32_t entries = 0;  // power of two
    uint32_t stride = 0;   // bytes
};

class RegionMap {
  public:
    // Maps `bytes` of `fd` (which is closed unless `keep`). 0 or errno: EMFILE if there was no
    // room for the descriptor (recvmsg(2), MSG_CTRUNC), EPROTO if the file is smaller than promised.
    int add(uint32_t region, int fd, uint64_t bytes, bool keep = false);
    // Takes the region that came with a reply, if one did. 0, or why there is none for this queue: a descriptor comes once,
    // so a region that could not be mapped is missing for all queues in it.
    int take(const abi::QueueRef& ref, uint64_t new_region_bytes, FdList& fds);

    [[nodiscard]] std::byte* base(uint32_t region, uint64_t* bytes);
    // False when the daemon described something that does not lie in the region.
    bool view(const abi::QueueRef& ref, uint64_t offset, QueueView& out);

  private:
    struct Region {
        std::byte* base = nullptr;
        uint64_t bytes = 0;
        int error = 0;  // why there is no `base`
    };
    Mutex mutex_;
    std::vector<Region> regions_;
};

}  // namespace rocemu::provider
