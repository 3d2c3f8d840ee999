// SPDX-License-Identifier: BSD-3-Clause
// hostile: parts of a client that does everything wrong, from a seed. Each attack is one session with the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rocemu::provider {
class Connection;
}

namespace hostile {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() % n); }
    bool one_in(uint32_t n) { return below(n) == 0; }
    // A number that is likely to hurt: small, near powers of two, near the ends, or anything.
    uint64_t nasty();
    void fill(void* memory, size_t bytes);

  private:
    uint64_t state_;
};

enum class Outcome { Done, NoDaemon };

// Records that are no messages, of any length, with descriptors of any kind; hellos cut short.
Outcome send_garbage(const std::string& socket, Random& random);
// Every message with fields made up; often the socket is closed before the reply.
Outcome send_made_up_messages(const std::string& socket, Random& random);
// A session that looks honest until it writes nonsense into its queues, doorbells and rings.
Outcome scribble(const std::string& socket, Random& random);

// A file said to be behind a region: any range, any file (or `other_file`), and cut while it is in use; at times behind that of
// `old_key` too. The region lies in the buffer, or at an address that is none of ours: packets would be written over our own
// heap. The key of what the daemon has accepted, or 0.
uint32_t register_file(rocemu::provider::Connection& connection, Random& random, uint32_t pd, std::span<const uint8_t> buffer,
                       int other_file, uint32_t old_key);

inline constexpr int kAttacks = 3;
inline constexpr const char* kAttackNames[kAttacks] = {"garbage", "made-up messages", "scribbled queues"};

}  // namespace hostile
