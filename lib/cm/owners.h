// SPDX-License-Identifier: BSD-3-Clause
// Owners: who may hold how much. An owner is known from add to remove; its numbers bound what one session can take of
// the manager's capacities. Nothing of the protocol is here.
#pragma once

#include "cm/config.h"
#include "cm/hash_index.h"
#include "cm/types.h"

namespace rocemu::cm {

struct Owner {
    OwnerId id = 0;
    OwnerLimits limits;
    uint32_t connections = 0;  // those it has not destroyed yet
    uint32_t bindings = 0;
};

class Owners {
  public:
    Owners(uint32_t capacity, uint64_t seed) : slots_(capacity), index_(capacity, seed) {
        free_.reserve(capacity);
        for (uint32_t slot = capacity; slot-- > 0;) free_.push_back(slot);
    }

    [[nodiscard]] Owner* find(OwnerId id) {
        const uint32_t slot = index_.find(index_.hash(id, 0), [&](uint32_t s) { return slots_[s].id == id; });
        return slot == HashIndex::kNone ? nullptr : &slots_[slot];
    }
    Status add(OwnerId id, const OwnerLimits& limits) {
        if (find(id) != nullptr) return Status::InvalidArgument;
        if (free_.empty()) return Status::NoResources;
        const uint32_t slot = free_.back();
        free_.pop_back();
        slots_[slot] = Owner{.id = id, .limits = limits};
        index_.insert(slot, index_.hash(id, 0));
        return Status::Ok;
    }
    void remove(Owner& owner) {
        const auto slot = static_cast<uint32_t>(&owner - slots_.data());
        index_.erase(slot);
        owner = Owner{};
        free_.push_back(slot);
    }

  private:
    std::vector<Owner> slots_;
    HashIndex index_;
    std::vector<uint32_t> free_;
};

}  // namespace rocemu::cm
