// SPDX-License-Identifier: BSD-3-Clause
// See arena.h.
#include "arena.h"

#include <cstring>

namespace interop {

Arena::Arena(const Case& c)
    : case_(c),
      size_(c.atomic() ? 8 : c.size),
      stride_((size_ + 63) / 64 * 64 + 2 * kGuard),
      bytes_(c.messages() * stride_, kEmpty) {
    // The last payload ends where the guard behind it begins.
    bytes_.resize((c.messages() - 1) * stride_ + kGuard + size_ + kGuard, kEmpty);
}

std::byte Arena::pattern(uint32_t message, size_t at) const {
    return static_cast<std::byte>(size_ + message * 37 + at * 7 + (at >> 8) * 13);
}

uint64_t Arena::word(uint32_t message) {
    uint64_t value = 0;
    std::memcpy(&value, payload(message), sizeof value);
    return value;
}

void Arena::fill_source() {
    for (uint32_t m = 0; m < case_.messages(); ++m) {
        if (case_.atomic()) {
            const uint64_t value = before(m);
            std::memcpy(payload(m), &value, sizeof value);
            continue;
        }
        for (size_t i = 0; i < size_; ++i) payload(m)[i] = pattern(m, i);
    }
}

std::string Arena::check_guards(uint32_t message) {
    const std::byte* p = payload(message);
    for (size_t i = 1; i <= kGuard; ++i) {
        // The GRH is written in front of a datagram.
        if (p[-static_cast<ptrdiff_t>(i)] != kEmpty && !(case_.service == Service::Ud && i <= 40))
            return "message " + std::to_string(message) + ": byte " + std::to_string(i) + " before it was written";
        if (p[size_ + i - 1] != kEmpty)
            return "message " + std::to_string(message) + ": byte " + std::to_string(i) + " behind it was written";
    }
    return "";
}

std::string Arena::check_target(uint32_t message) {
    for (size_t i = 0; i < size_; ++i)
        if (payload(message)[i] != pattern(message, i))
            return "message " + std::to_string(message) + ": byte " + std::to_string(i) + " is wrong";
    return check_guards(message);
}

std::string Arena::check_some_target(uint32_t slot) {
    for (uint32_t m = slot; m < case_.messages(); ++m) {
        size_t same = 0;
        while (same < size_ && payload(slot)[same] == pattern(m, same)) ++same;
        if (same == size_) return check_guards(slot);
    }
    return "receive " + std::to_string(slot) + " holds no message that was sent";
}

std::string Arena::check_untouched(uint32_t message) {
    for (size_t i = 0; i < size_; ++i)
        if (payload(message)[i] != kEmpty)
            return "message " + std::to_string(message) + ": byte " + std::to_string(i) + " was written";
    return check_guards(message);
}

std::string Arena::check_result(uint32_t message) {
    if (word(message) != before(message)) return "atomic " + std::to_string(message) + ": wrong old value";
    return check_guards(message);
}

std::string Arena::check_after(uint32_t message) {
    const uint64_t old = before(message);
    uint64_t now = old + operand(message);
    if (case_.work == Work::CompareSwap) now = compare(message) == old ? kSwap + message : old;
    if (word(message) != now) return "atomic " + std::to_string(message) + ": wrong new value";
    return check_guards(message);
}

}  // namespace interop
