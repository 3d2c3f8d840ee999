// SPDX-License-Identifier: BSD-3-Clause
// AddressTable: the address handles of a session as a shard knows them: finished address headers, by the session's
// number of the handle. Many thousands of them are normal (one per peer of a UD program), so an entry is small and a
// look-up is an index. Changes come from control calls only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/setup.h"
#include "wire/build.h"

namespace rocemu::engine {

// Resolved by control when the handle was created.
struct AddressRecord {
    wire::HeaderTemplate headers;
    memory::PdId pd = 0;
    DeviceId device = 0;
    wire::Gid destination;
};

class AddressTable {
  public:
    [[nodiscard]] const AddressRecord* find(uint32_t number) const {
        return number < records_.size() ? records_[number].get() : nullptr;
    }
    void insert(uint32_t number, const AddressRecord& record) {
        if (records_.size() <= number) records_.resize(size_t{number} + number / 2 + 16);
        records_[number] = std::make_unique<AddressRecord>(record);
    }
    template <typename Visit>
    void for_each(Visit visit) {
        for (auto& record : records_)
            if (record) visit(*record);
    }
    void erase(uint32_t number) {
        if (number < records_.size()) records_[number].reset();
    }

  private:
    std::vector<std::unique_ptr<AddressRecord>> records_;
};

}  // namespace rocemu::engine
