// SPDX-License-Identifier: BSD-3-Clause
// ConnectionTable: the slots of all connections, their ids, and every way to find one: by our communication id, by the
// peer's, by the peer's QP, by deadline. Capacity is fixed at construction.
//
// A connection whose owner has destroyed it lingers as an orphan until its protocol is over (DREQ answered, time wait
// passed). Orphans give way, oldest first, when a new connection needs a slot: nobody can hold capacity with them.
// Read IBTA volume 1, 12.9.4 (communication ids).
#pragma once

#include <optional>

#include "base/fixed_ring.h"
#include "cm/connection.h"
#include "cm/deadline_heap.h"
#include "cm/hash_index.h"

namespace rocemu::cm {

class ConnectionTable {
  public:
    // `config` outlives the table.
    explicit ConnectionTable(const Config& config);

    // nullptr: no such id (never, not any more, or of a slot that is now somebody else's).
    [[nodiscard]] Connection* find(CmId id);
    // By the peer's id of the connection; peers are told apart by their CA GUID, for SIDR by their GID.
    [[nodiscard]] Connection* find_remote(uint32_t remote_id, uint64_t remote_ca_guid, const Path& path, bool sidr);
    // The live connection with that QP of the peer.
    [[nodiscard]] Connection* find_remote_qp(uint32_t qpn, uint64_t remote_ca_guid, const Path& path);

    // A fresh connection in state Closed, or nullptr when all slots are taken by connections that have an owner.
    [[nodiscard]] Connection* allocate(OwnerId owner, uint64_t local_ca_guid, Counters& counters);
    // To be called after each change of a connection: follows its state in the indexes and the deadlines, and frees
    // it when it is closed and nobody's. The reference is dead afterwards if it returns false.
    bool settle(Connection& connection);

    [[nodiscard]] Instant earliest_deadline() const { return deadlines_.earliest(); }
    // Precondition: earliest_deadline() != kNever.
    [[nodiscard]] Connection& earliest() { return slots_[deadlines_.earliest_slot()]; }
    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(slots_.size()) - free_.size(); }

    // Visits all connections; `use` may change and settle the one it is given.
    template <typename Use>
    void for_each(Use use) {
        for (auto& connection : slots_)
            if (connection.state() != State::Free) use(connection);
    }

  private:
    static constexpr uint32_t kNone = HashIndex::kNone;

    [[nodiscard]] uint32_t slot_of(const Connection& c) const { return static_cast<uint32_t>(&c - slots_.data()); }
    [[nodiscard]] uint32_t slot_of(CmId id) const { return (id ^ id_mask_) & ((1u << slot_bits_) - 1); }
    [[nodiscard]] CmId next_id(uint32_t slot);
    [[nodiscard]] uint64_t remote_hash(uint32_t remote_id, uint64_t guid, const Path& path, bool sidr) const;
    void release(uint32_t slot);
    void append_orphan(uint32_t slot);
    void remove_orphan(uint32_t slot);

    const Config& config_;
    unsigned slot_bits_;
    uint32_t id_mask_;
    std::vector<Connection> slots_;
    std::vector<uint32_t> generations_;
    FixedRing<uint32_t> free_;  // first in, first out: an id stays unused for as long as possible
    HashIndex by_remote_id_, by_remote_qp_;
    DeadlineHeap deadlines_;
    std::vector<uint32_t> older_, younger_;  // list of orphans; a slot outside of it points to itself
    uint32_t oldest_ = kNone, youngest_ = kNone;
};

}  // namespace rocemu::cm
