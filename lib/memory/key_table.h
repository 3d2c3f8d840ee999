// SPDX-License-Identifier: BSD-3-Clause
// KeyTable: from an lkey or rkey to application memory, with every check of IBTA volume 1, 10.6.3 and C9-89.
// One replica per shard, changed only by that shard (control sends it messages), so look-ups need no lock.
// lkey and rkey of an MR are equal; bits 31:8 are an index, bits 7:0 a variant that changes on reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rocemu::memory {

using PdId = uint32_t;
// Index of an address space (a process that attached). Numbers are never reused while anything refers to them.
using SpaceId = uint32_t;

struct Region {
    uint32_t key = 0;
    PdId pd = 0;
    uint32_t access = 0;   // access_flags
    uint64_t iova = 0;     // first address as used in WRs and RETH
    uint64_t length = 0;   // bytes; iova + length does not wrap
    uint64_t va = 0;       // first address in the space
    SpaceId space = 0;
};

// A piece of application memory after all checks.
struct Segment {
    SpaceId space;
    uint32_t length;  // bytes
    uint64_t va;
};

enum class KeyStatus : uint8_t { Ok, NoSuchKey, WrongPd, OutOfBounds, AccessDenied };

class KeyTable {
  public:
    // `capacity`: highest number of keys; storage grows by control messages only, never on the data path.
    void insert(const Region& region);
    // True if it was there. After return no look-up finds it.
    bool remove(uint32_t key);
    [[nodiscard]] const Region* find(uint32_t key) const;

    // Checks [addr, addr+length) against key, PD, bounds and `need` (access_flags; 0 = local read, always allowed).
    // length 0 is the caller's case (C9-88: no check at all). On Ok `out` is one contiguous segment.
    [[nodiscard]] KeyStatus resolve(uint32_t key, PdId pd, uint64_t addr, uint32_t length, uint32_t need,
                                    Segment& out) const;
    [[nodiscard]] size_t size() const { return live_; }

  private:
    std::vector<Region> slots_;  // by index; key 0 = free
    size_t live_ = 0;
};

}  // namespace rocemu::memory
