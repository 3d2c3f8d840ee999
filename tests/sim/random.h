// SPDX-License-Identifier: BSD-3-Clause
// Random: the only source of chance in simulations (splitmix64). A seed names a run exactly.
#pragma once

#include <cstdint>

namespace rocemu::sim {

class Random {
  public:
    // Neighbouring seeds must not walk through the same states one step apart: the two directions of a link would lose
    // the same frames.
    explicit Random(uint64_t seed) : state_(mix(seed ^ 0x1234567)) {}

    uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15ull); }
    uint64_t below(uint64_t n) { return n == 0 ? 0 : next() % n; }
    uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
    bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability; }

  private:
    static constexpr uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }

    uint64_t state_;
};

}  // namespace rocemu::sim
