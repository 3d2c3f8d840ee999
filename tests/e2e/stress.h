// SPDX-License-Identifier: BSD-3-Clause
// For the stress program: what its threads share. Completions are taken by whichever thread polls, so everything that
// a completion names has a number and a generation: one that was given up meanwhile does not answer to its old name.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include <infiniband/verbs.h>

namespace stress {

constexpr uint32_t kMessage = 3000;  // bytes at most: one to three packets
constexpr uint32_t kBuffers = 8192, kOps = 8192;
constexpr uint64_t kReceiveBit = uint64_t{1} << 63;
constexpr uint8_t kCanary = 0xEE;
constexpr uint32_t kShared = 512;  // WRs of a shared queue
constexpr uint64_t kOwn = ~uint64_t{0};

inline std::atomic<uint64_t> failures{0}, messages{0}, bytes_checked{0}, recycled{0};

inline void fail(const char* what, uint64_t a = 0, uint64_t b = 0) {
    if (failures.fetch_add(1) < 20) std::printf("WRONG %s (%llu, %llu)\n", what, (unsigned long long)a, (unsigned long long)b);
}

// Every message begins with this; the bytes behind it follow from the seed.
struct Header {
    uint64_t seed;
    uint32_t length;
    uint32_t op, generation;  // of the send
    uint32_t reserved;
};

inline void fill(uint8_t* p, uint32_t length, uint64_t seed) {
    for (uint32_t i = 0; i < length; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = static_cast<uint8_t>(seed >> 56);
    }
}
inline bool holds(const uint8_t* p, uint32_t length, uint64_t seed) {
    for (uint32_t i = 0; i < length; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (p[i] != static_cast<uint8_t>(seed >> 56)) return false;
    }
    return true;
}

// A WR that was posted to a send queue. word: generation << 32 | received << 8 | (0: pending, else status + 1).
struct Op {
    std::atomic<uint64_t> word{0};
};

enum class Phase : uint32_t { Free, Posted, Checking, Done };

// A receive buffer. word: generation << 32 | phase.
struct Buffer {
    std::atomic<uint64_t> word{0};
    std::atomic<uint64_t> posted_at{0};  // ms
    std::atomic<uint64_t> order{0};      // in the shared queue; kOwn: in a QP's own
    bool canary = false;                 // given back by a QP that was destroyed: must not have changed since
    alignas(16) uint8_t bytes[kMessage + 64];
};

constexpr uint64_t word_of(uint32_t generation, Phase phase) {
    return uint64_t{generation} << 32 | static_cast<uint32_t>(phase);
}

uint64_t now_ms();

// One device with what its QPs share.
struct Nic {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_cq* cq[2] = {};
    ibv_srq* srq = nullptr;
    ibv_mr* mr = nullptr;
    ibv_gid gid{};
    int gid_index = -1;
    std::vector<Buffer> buffers = std::vector<Buffer>(kBuffers);
    std::atomic<uint64_t> shared_posts{0};
    std::mutex lock;  // of `free`
    std::vector<uint32_t> free;

    void open(const char* name);
    void close();
    // A free buffer, now Posted; its number, and the wr_id that names it. Aborts when there is none left.
    uint32_t take(uint64_t& wr_id, uint64_t order = kOwn);
    void give_back(uint32_t buffer, bool canary);
    void post_shared(uint32_t count);
    // Those that a destroyed QP had taken from the shared queue come back to nobody: more have been posted behind them than
    // the queue holds, and they have not completed for long.
    void recycle(uint64_t older_than_ms);
    // Takes some completions of both CQs, whoever they are for.
    int poll();

  private:
    void received(const ibv_wc& wc);
};

extern Nic nics[2];
extern std::vector<Op> ops;

}  // namespace stress
