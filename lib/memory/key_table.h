// SPDX-License-Identifier: BSD-3-Clause
// KeyTable: from an lkey or rkey to application memory, with every check of IBTA volume 1, 10.6.3 and C9-89.
// One replica per shard, changed only by that shard (control sends it messages), so look-ups need no lock.
// lkey and rkey of an MR are equal; bits 31:8 are an index, bits 7:0 a variant that changes on reuse.
// A memory window has an rkey only: a part of a region that peers may reach while it is bound (10.6.7). key_table.cpp
// holds the look-ups, window.cpp how windows are bound and invalidated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rocemu::memory {

using PdId = uint32_t;
// Index of an address space (a process that attached). Numbers are never reused while anything refers to them.
using SpaceId = uint32_t;

enum class KeyKind : uint8_t { Region, WindowType1, WindowType2 };

struct Region {
    uint32_t key = 0;
    PdId pd = 0;
    uint32_t access = 0;  // access_flags
    uint64_t iova = 0;    // first address as used in WRs and RETH
    uint64_t length = 0;  // bytes; iova + length does not wrap
    uint64_t va = 0;      // first address in the space
    SpaceId space = 0;
    bool mapped = false;  // the daemon has the memory mapped too, under the region's key
    KeyKind kind = KeyKind::Region;
    uint32_t windows = 0;  // region: how many are bound to it
    uint32_t parent = 0;   // window: key of the region it is bound to; 0: not bound
    uint32_t qpn = 0;      // window of type 2: the QP it was bound through

    [[nodiscard]] bool is_window() const { return kind != KeyKind::Region; }
};

// What a bind asks for. `key` has the window's index; its variant becomes the window's new one.
struct WindowBind {
    uint32_t key = 0;
    uint32_t region = 0;  // lkey
    PdId pd = 0;          // of the QP
    uint32_t qpn = 0;
    uint32_t access = 0;
    uint64_t addr = 0;    // in the region's address range
    uint64_t length = 0;  // 0 unbinds a window of type 1
};

// A piece of application memory after all checks.
struct Segment {
    SpaceId space;
    uint32_t length;  // bytes
    uint64_t va;
    uint32_t key;     // of a mapped region, else 0
    uint32_t region;  // in which it lies
};

enum class KeyStatus : uint8_t { Ok, NoSuchKey, WrongPd, OutOfBounds, AccessDenied };

class KeyTable {
  public:
    // `capacity`: highest number of keys; storage grows by control messages only, never on the data path.
    void insert(const Region& region);
    // True if it was there. After return no look-up finds it.
    bool remove(uint32_t key);
    [[nodiscard]] const Region* find(uint32_t key) const;

    // Checks [addr, addr+length) against lkey, PD, bounds and `need` (access_flags; 0 = local read, always allowed).
    // length 0 is the caller's case (C9-88: no check at all). On Ok `out` is one contiguous segment.
    [[nodiscard]] KeyStatus resolve(uint32_t key, PdId pd, uint64_t addr, uint32_t length, uint32_t need,
                                    Segment& out) const;
    // The same for an rkey that came to QP `qpn`: regions and bound windows.
    [[nodiscard]] KeyStatus resolve_remote(uint32_t key, PdId pd, uint32_t qpn, uint64_t addr, uint32_t length,
                                           uint32_t need, Segment& out) const;
    // Is what was resolved some time ago still registered? A window may have been invalidated since, by a request that
    // came after the one that was allowed through it.
    [[nodiscard]] bool holds(const Segment& segment) const;
    [[nodiscard]] size_t size() const { return live_; }

    // --- windows
    // ------------------------------------------------------------------------------------------------------ False if
    // the bind is against the rules; nothing has changed then.
    bool bind(const WindowBind& bind);
    // Is the window as `bind` would have made it?
    [[nodiscard]] bool is_bound(const WindowBind& bind) const;
    // By the owner or by a peer of QP `qpn`. False if the key is no bound window of type 2 of that QP.
    bool invalidate(uint32_t key, PdId pd, uint32_t qpn);
    [[nodiscard]] bool may_invalidate(uint32_t key, PdId pd, uint32_t qpn) const;
    [[nodiscard]] KeyKind kind_of(uint32_t key) const;  // by index; KeyKind::Region also for nothing
    // Whatever its variant is now.
    bool remove_window(uint32_t key);
    // The QP goes away. Walks the whole table: for QPs that did bind windows.
    void unbind_all_of(uint32_t qpn);

  private:
    [[nodiscard]] static constexpr uint32_t index_of(uint32_t key) { return key >> 8; }
    [[nodiscard]] static KeyStatus within(const Region& r, PdId pd, uint64_t addr, uint32_t length, uint32_t need,
                                          Segment& out);
    [[nodiscard]] Region* window(uint32_t key);
    void unbind(Region& window);

    std::vector<Region> slots_;  // by index; key 0 = free
    size_t live_ = 0;
};

}  // namespace rocemu::memory
