// SPDX-License-Identifier: BSD-3-Clause
// QpnTable: QPN to QpRecord, one probe in the usual case. Open addressing with linear probing; grows in insert only
// (control calls), so the data path never allocates. QPN 0 means free: no QP of ours has it.
#pragma once

#include <cstdint>
#include <vector>

namespace rocemu::engine {

struct QpRecord;

class QpnTable {
  public:
    explicit QpnTable(uint32_t capacity = 1024) : slots_(capacity) {}

    [[nodiscard]] QpRecord* find(uint32_t qpn) const {
        for (uint32_t i = home(qpn);; i = next(i)) {
            if (slots_[i].qpn == qpn) return slots_[i].record;
            if (slots_[i].qpn == 0) return nullptr;
        }
    }
    void insert(uint32_t qpn, QpRecord* record) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        uint32_t i = home(qpn);
        while (slots_[i].qpn != 0 && slots_[i].qpn != qpn) i = next(i);
        if (slots_[i].qpn == 0) ++size_;
        slots_[i] = {qpn, record};
    }
    // Closes the gap by moving later entries of the same run back, so that no tombstones gather.
    void erase(uint32_t qpn) {
        uint32_t i = home(qpn);
        while (slots_[i].qpn != qpn) {
            if (slots_[i].qpn == 0) return;
            i = next(i);
        }
        --size_;
        for (uint32_t j = next(i);; j = next(j)) {
            if (slots_[j].qpn == 0) break;
            const uint32_t h = home(slots_[j].qpn);
            // May j move to i? Only if its home is not in (i, j].
            if (((j - h) & mask()) >= ((j - i) & mask())) {
                slots_[i] = slots_[j];
                i = j;
            }
        }
        slots_[i] = {};
    }
    [[nodiscard]] uint32_t size() const { return size_; }
    template <typename F>
    void for_each(F&& f) const {
        for (const auto& s : slots_)
            if (s.qpn != 0) f(*s.record);
    }

  private:
    struct Slot {
        uint32_t qpn = 0;
        QpRecord* record = nullptr;
    };
    [[nodiscard]] uint32_t mask() const { return static_cast<uint32_t>(slots_.size()) - 1; }
    [[nodiscard]] uint32_t next(uint32_t i) const { return (i + 1) & mask(); }
    [[nodiscard]] uint32_t home(uint32_t qpn) const { return (qpn * 0x9E3779B1u >> 8) & mask(); }
    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        size_ = 0;
        for (const auto& s : old)
            if (s.qpn != 0) insert(s.qpn, s.record);
    }

    std::vector<Slot> slots_;  // power of two
    uint32_t size_ = 0;
};

}  // namespace rocemu::engine
