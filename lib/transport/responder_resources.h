// SPDX-License-Identifier: BSD-3-Clause
// ResponderResources: the READs and atomics a responder has accepted last, as many as max_dest_rd_atomic promises. They
// are what is still to be answered, and what a repeated request is answered from: a READ is read again, an atomic gives
// its saved result and is never executed twice. Read IBTA volume 1, 9.7.5.1.4, 9.7.5.1.5 (duplicates), 9.7.4.1.3.
#pragma once

#include <cstdint>
#include <memory_resource>

#include "base/fixed_ring.h"
#include "transport/dma_queue.h"

namespace rocemu::transport {

enum class ResourceKind : uint8_t { Read, Atomic, AtomicWrite };

struct Resource {
    uint64_t first = 0;  // extended PSN of the request and of its first response packet
    uint64_t end = 0;    // one past the last response packet
    uint64_t start = 0;  // where the running answer began (a repeated READ may ask for the rest only)
    uint64_t next = 0;   // next response packet to send; end: answered
    uint64_t mark = 0;   // placements that must have succeeded before the answer leaves
    uint64_t addr = 0;
    uint64_t original = 0;  // atomic: the value found
    AtomicOperands operands;
    uint32_t rkey = 0;
    memory::PdId pd = 0;  // READ: of the rkey
    uint32_t length = 0;  // bytes
    uint32_t msn = 0;
    ResourceKind kind = ResourceKind::Read;
    bool answered = false;  // completely, at least once
    bool replayed = false;  // the running answer repeats a complete one

    [[nodiscard]] bool pending() const { return next != end; }
};

class ResponderResources {
  public:
    ResponderResources(uint32_t depth, std::pmr::memory_resource* memory) : ring_(depth, memory) {}

    // False if the peer has more outstanding than `depth` (IBTA 9.7.4.1.3: it must not).
    [[nodiscard]] bool has_room(uint32_t depth) const;
    // A place for a new request, in exchange for the oldest when `depth` are kept. Precondition: has_room(depth).
    Resource& add(uint32_t depth);
    [[nodiscard]] uint64_t newest_number() const { return ring_.tail() - 1; }
    // By number; null if it was given up.
    [[nodiscard]] Resource* at(uint64_t number) { return ring_.contains(number) ? &ring_.at(number) : nullptr; }
    // The kept request whose response covers `psn`, or null.
    [[nodiscard]] Resource* find(uint64_t psn);
    // The oldest kept request behind `psn`, or null.
    [[nodiscard]] const Resource* first_after(uint64_t psn) const;
    // The oldest one that waits to be answered, or null.
    [[nodiscard]] Resource* oldest_pending();
    // Answer again, from `psn` on.
    void replay(Resource& r, uint64_t psn);
    void answered(Resource& r);
    // Nothing from `psn` on will be answered.
    void cancel_from(uint64_t psn);
    void clear() {
        ring_.clear();
        pending_ = 0;
    }

  private:
    FixedRing<Resource> ring_;
    uint32_t pending_ = 0;
};

}  // namespace rocemu::transport
