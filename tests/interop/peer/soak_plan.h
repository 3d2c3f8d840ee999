// SPDX-License-Identifier: BSD-3-Clause
// What each side of the soak does, as a function of connection, direction and number of the message: both sides know it
// without telling each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace interop::soak {

constexpr uint32_t kMaxSize = 4096;
constexpr uint32_t kReceives = 8;  // posted for each connection; again only when the last message was checked
// Where messages that take a receive are written, in turn. More than kReceives + kWindow: a slot is not written again
// before it was checked, because what would lie between needs receives that are not posted.
constexpr uint32_t kSlots = 16;
constexpr uint32_t kWindow = 4;  // messages of one connection and direction under way

enum class Kind : uint8_t { Send, SendImm, WriteImm, Read, FetchAdd };

struct Message {
    Kind kind;
    uint32_t size;
    [[nodiscard]] bool takes_receive() const { return kind <= Kind::WriteImm; }
};

inline uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

inline Message message(uint32_t connection, uint32_t side, uint64_t number) {
    const uint64_t r = mix((uint64_t{connection} << 33 | uint64_t{side} << 32) + number + 1);
    // One in four is larger than a packet at a path MTU of 1024.
    const uint32_t size = static_cast<uint32_t>(r >> 8) % ((r & 3) == 0 ? kMaxSize + 1 : 600);
    const auto kind = static_cast<Kind>(r >> 40 & 7);
    if (kind > Kind::FetchAdd) return {Kind::Send, size};
    return {kind, kind == Kind::FetchAdd ? 8 : size};
}

// Byte of the n-th message that takes a receive.
inline std::byte payload(uint32_t connection, uint32_t side, uint64_t n, size_t at) {
    return static_cast<std::byte>(connection * 31 + side * 17 + n * 37 + at * 7 + (at >> 8) * 13);
}

// What a READ finds, at any time.
inline std::byte readable(size_t at) {
    return static_cast<std::byte>(at * 11 + (at >> 8) * 3 + 5);
}

}  // namespace interop::soak
