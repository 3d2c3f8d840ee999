// SPDX-License-Identifier: BSD-3-Clause
// Mappings: application memory of one space that the daemon has mapped too, by the key of its region. By key and not by
// address: a program may map something else at an address while an old registration of it lives on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "payload/mover.h"

namespace rocemu::payload {

struct Mapping {
    std::byte* local;  // of the byte at `va`
    uint64_t va;
    uint64_t length;
};

class Mappings {
  public:
    [[nodiscard]] bool empty() const { return by_key_.empty(); }
    void insert(uint32_t key, const Mapping& mapping) {
        by_key_[key] = mapping;
        last_key_ = 0;
    }
    void remove(uint32_t key) {
        by_key_.erase(key);
        last_key_ = 0;
    }
    // Where a piece lies in the daemon; nullptr: it is not mapped.
    [[nodiscard]] std::byte* find(const Piece& piece) {
        if (piece.key == 0) return nullptr;
        if (piece.key != last_key_) {
            const auto it = by_key_.find(piece.key);
            if (it == by_key_.end()) return nullptr;
            last_key_ = piece.key;
            last_ = it->second;
        }
        const uint64_t offset = piece.va - last_.va;
        if (offset > last_.length || piece.length > last_.length - offset) return nullptr;
        return last_.local + offset;
    }

  private:
    std::unordered_map<uint32_t, Mapping> by_key_;
    uint32_t last_key_ = 0;  // the pieces of a message have one key, most often
    Mapping last_{};
};

}  // namespace rocemu::payload
