// SPDX-License-Identifier: BSD-3-Clause
// What the two ends of check_bytes do, made from a seed: both know each message's kind, size, layout and every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace check_bytes {

inline constexpr uint32_t kMaxSize = 256 * 1024;
inline constexpr uint32_t kWindow = 8;  // messages of a direction in flight; each has a slot of its own
inline constexpr uint32_t kMaxPieces = 4;
inline constexpr uint32_t kGap = 24;  // bytes between the pieces of a slot, which nobody may touch
inline constexpr uint32_t kSlotBytes = kMaxSize + 4096;
inline constexpr uint8_t kPoison = 0xA5;

enum class Op : uint8_t { Send, SendImm, Write, WriteImm, Read };

// A number sequence of our own: the same on every machine.
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

  private:
    uint64_t state_;
};

struct Piece {
    uint32_t offset;  // in the slot
    uint32_t length;
};

struct Message {
    Op op = Op::Send;
    uint32_t size = 0;
    uint32_t imm = 0;
    bool inline_data = false;
    uint64_t key = 0;             // of its bytes
    std::vector<Piece> local;     // in the requester's slot
    std::vector<Piece> remote;    // in the responder's slot: pieces of the receive, or one range
    uint32_t receive_extra = 0;   // bytes by which the receive is larger than the message

    [[nodiscard]] bool takes_receive() const { return op == Op::Send || op == Op::SendImm || op == Op::WriteImm; }
    [[nodiscard]] bool has_imm() const { return op == Op::SendImm || op == Op::WriteImm; }
};

inline std::vector<Piece> cut(Random& random, uint32_t size, uint32_t pieces) {
    std::vector<Piece> out;
    uint32_t offset = random.below(64);
    for (uint32_t i = 0; i < pieces; ++i) {
        const uint32_t length = i + 1 == pieces ? size : random.below(size + 1);
        out.push_back({offset, length});
        offset += length + kGap;
        size -= length;
    }
    return out;
}

inline uint32_t random_size(Random& random) {
    switch (random.below(4)) {
        case 0: return random.below(65);
        case 1: return random.below(4097);
        default: return random.below((1u << (1 + random.below(18))) + 1);  // up to 256 KiB, each magnitude as often
    }
}

inline std::vector<Message> make_plan(uint64_t seed, uint32_t count, uint32_t max_inline) {
    Random random(seed);
    std::vector<Message> plan(count);
    uint32_t silent = 0;
    for (uint32_t i = 0; i < count; ++i) {
        Message& m = plan[i];
        m.op = static_cast<Op>(random.below(5));
        // A receive tells the responder that everything before it has arrived: the last message, and one in a window.
        if (i + 1 == count || (silent == kWindow - 2 && !m.takes_receive())) m.op = Op::SendImm;
        silent = m.takes_receive() ? 0 : silent + 1;
        m.size = random_size(random);
        m.imm = static_cast<uint32_t>(random.next());
        m.key = random.next();
        m.inline_data = m.op != Op::Read && m.size <= max_inline && random.below(2) == 0;
        m.local = cut(random, m.size, 1 + random.below(kMaxPieces));
        const bool scattered = m.op == Op::Send || m.op == Op::SendImm;
        m.remote = cut(random, m.size, scattered ? 1 + random.below(kMaxPieces) : 1);
        m.receive_extra = random.below(64);
    }
    return plan;
}

// The slot as it must look when the message lies in `pieces` and nothing else was touched.
inline void fill_slot(const Message& m, const std::vector<Piece>& pieces, std::byte* slot) {
    std::memset(slot, kPoison, kSlotBytes);
    Random bytes(m.key);
    uint64_t word = 0;
    uint32_t n = 0;
    for (const Piece& p : pieces)
        for (uint32_t i = 0; i < p.length; ++i, ++n) {
            if (n % 8 == 0) word = bytes.next();
            slot[p.offset + i] = static_cast<std::byte>(word >> n % 8 * 8);
        }
}

}  // namespace check_bytes
