// SPDX-License-Identifier: BSD-3-Clause
// HashIndex: finds slots by a hash; several may share one. Chained through arrays that are allocated at construction:
// no insertion can fail or allocate. Keys are not stored: the caller compares what it finds.
// The hash is keyed with a seed, so that a peer that chooses its ids cannot make chains long.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace rocemu::cm {

// splitmix64: also the generator of ids and ports.
[[nodiscard]] constexpr uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

class HashIndex {
  public:
    static constexpr uint32_t kNone = ~0u;

    HashIndex(uint32_t slots, uint64_t seed)
        : seed_(mix(seed)), heads_(std::bit_ceil(slots | 1u), kNone), next_(slots, kNone), bucket_(slots, kNone) {}

    [[nodiscard]] uint64_t hash(uint64_t a, uint64_t b) const { return mix(mix(a ^ seed_) ^ b); }
    [[nodiscard]] bool contains(uint32_t slot) const { return bucket_[slot] != kNone; }

    // Precondition: !contains(slot).
    void insert(uint32_t slot, uint64_t hash) {
        const uint32_t bucket = bucket_of(hash);
        bucket_[slot] = bucket;
        next_[slot] = heads_[bucket];
        heads_[bucket] = slot;
    }
    // Does nothing if the slot is not in the index.
    void erase(uint32_t slot) {
        if (!contains(slot)) return;
        uint32_t* link = &heads_[bucket_[slot]];
        while (*link != slot) link = &next_[*link];
        *link = next_[slot];
        bucket_[slot] = kNone;
    }
    // The first slot for which matches(slot), or kNone.
    template <typename Matches>
    [[nodiscard]] uint32_t find(uint64_t hash, Matches matches) const {
        for (uint32_t slot = heads_[bucket_of(hash)]; slot != kNone; slot = next_[slot])
            if (matches(slot)) return slot;
        return kNone;
    }

  private:
    [[nodiscard]] uint32_t bucket_of(uint64_t hash) const { return static_cast<uint32_t>(hash & (heads_.size() - 1)); }

    uint64_t seed_;
    std::vector<uint32_t> heads_, next_, bucket_;
};

}  // namespace rocemu::cm
