// SPDX-License-Identifier: BSD-3-Clause
// Counter: one enumerator per line of counters.def. CounterBlock: the values one shard keeps for one device.
// A block has one writer (its shard); other threads read it with relaxed loads and may see a slightly old value.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rocemu::stats {

enum class Counter : uint16_t {
#define COUNTER(name, meaning) name,
#include "stats/counters.def"
#undef COUNTER
};

struct CounterInfo {
    std::string_view name;
    std::string_view meaning;
};

inline constexpr auto kCounters = std::to_array<CounterInfo>({
#define COUNTER(name, meaning) {#name, meaning},
#include "stats/counters.def"
#undef COUNTER
});
inline constexpr size_t kCounterCount = kCounters.size();

class CounterBlock {
  public:
    // Owner only. A plain load+store, not a locked add: there is one writer.
    void add(Counter c, uint64_t n = 1) {
        auto& v = values_[static_cast<size_t>(c)];
        v.store(v.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    [[nodiscard]] uint64_t get(Counter c) const {
        return values_[static_cast<size_t>(c)].load(std::memory_order_relaxed);
    }

  private:
    std::array<std::atomic<uint64_t>, kCounterCount> values_{};
};

}  // namespace rocemu::stats
