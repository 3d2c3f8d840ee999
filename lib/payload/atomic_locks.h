// SPDX-License-Identifier: BSD-3-Clause
// AtomicLocks: what makes the atomics of several shards atomic to each other where they are a read and a write by
// process_vm. Owned by whoever owns the shards; any thread. Read IBTA volume 1, 9.4.5: atomics of one HCA on one address
// exclude each other, whichever QPs they come by.
//
// A word may have several addresses, in one process or in several: a file that is mapped twice. All of them have the same
// place in their pages, so that chooses the lock.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace rocemu::payload {

class AtomicLocks {
  public:
    // Held for one operation, and nothing else is waited for meanwhile.
    [[nodiscard]] std::mutex& of(uint64_t va) { return locks_[va / 8 % kLocks].mutex; }

  private:
    static constexpr uint64_t kLocks = 64;  // a divisor of the words of a page
    struct alignas(64) Lock {
        std::mutex mutex;
    };
    std::array<Lock, kLocks> locks_;
};

}  // namespace rocemu::payload
