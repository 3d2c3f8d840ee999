// SPDX-License-Identifier: BSD-3-Clause
// ReferenceMemory: keys and bytes of the reference party, in the plainest form: one region, a right or not for each
// key. Read IBTA volume 1, 10.6.3 (checks of a key).
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "tests/model/party.h"
#include "tests/sim/memory.h"

namespace rocemu::model {

class ReferenceMemory {
  public:
    explicit ReferenceMemory(uint64_t bytes)
        : bytes_(bytes), rights_{{kAllKey, true}, {kDoomedKey, true}, {kPoorKey, false}} {}

    [[nodiscard]] std::byte* at(uint64_t va) { return bytes_.data() + (va - sim::kMemoryBase); }
    void remove_key(uint32_t key) { rights_.erase(key); }
    void set_fault(uint64_t from, uint64_t to) {
        fault_from_ = from;
        fault_to_ = to;
    }
    [[nodiscard]] bool faults(uint64_t va, uint64_t n) const { return n > 0 && va < fault_to_ && va + n > fault_from_; }
    // May the peer use [va, va + n) by this key? Of length 0 it may always (IBTA C9-88).
    [[nodiscard]] bool remote_ok(uint32_t key, uint64_t va, uint64_t n) const {
        const auto it = rights_.find(key);
        return n == 0 || (it != rights_.end() && it->second && inside(va, n));
    }
    [[nodiscard]] bool local_ok(uint32_t key, uint64_t va, uint64_t n) const {
        return n == 0 || (rights_.count(key) != 0 && inside(va, n));
    }
    // One byte after the other: the address of byte `i` of a scatter list, if its key allows it.
    [[nodiscard]] std::optional<uint64_t> byte_of(const std::vector<Sge>& sges, uint64_t i) const {
        for (const Sge& s : sges) {
            if (i < s.length) return local_ok(s.lkey, s.addr + i, 1) ? std::optional(s.addr + i) : std::nullopt;
            i -= s.length;
        }
        return std::nullopt;
    }
    // False: a key forbids it, or the memory faults.
    [[nodiscard]] bool scatter(const std::vector<Sge>& sges, uint64_t offset, std::span<const std::byte> data) {
        if (!reachable(sges, offset, data.size())) return false;
        for (size_t i = 0; i < data.size(); ++i) *at(*byte_of(sges, offset + i)) = data[i];
        return true;
    }
    [[nodiscard]] bool gather(const std::vector<Sge>& sges, uint64_t offset, std::span<std::byte> out) {
        if (!reachable(sges, offset, out.size())) return false;
        for (size_t i = 0; i < out.size(); ++i) out[i] = *at(*byte_of(sges, offset + i));
        return true;
    }

  private:
    [[nodiscard]] bool inside(uint64_t va, uint64_t n) const {
        return va >= sim::kMemoryBase && va - sim::kMemoryBase + n <= bytes_.size();
    }
    [[nodiscard]] bool reachable(const std::vector<Sge>& sges, uint64_t offset, size_t n) const {
        for (size_t i = 0; i < n; ++i) {
            const auto va = byte_of(sges, offset + i);
            if (!va || faults(*va, 1)) return false;
        }
        return true;
    }

    std::vector<std::byte> bytes_;
    std::map<uint32_t, bool> rights_;  // key: the peer may use it
    uint64_t fault_from_ = 0, fault_to_ = 0;
};

}  // namespace rocemu::model
