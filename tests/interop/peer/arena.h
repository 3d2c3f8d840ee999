// SPDX-License-Identifier: BSD-3-Clause
// Arena: one side's memory of a case: a slot for each message with guard bytes around it, and the patterns that must be
// there. The GRH of a UD receive stands in the guard before the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "case.h"

namespace interop {

class Arena {
  public:
    explicit Arena(const Case& c);

    [[nodiscard]] std::byte* payload(uint32_t message) { return &bytes_[message * stride_ + kGuard]; }
    [[nodiscard]] std::byte* base() { return bytes_.data(); }
    // Without the guard behind the last message: a region ends where its payload ends.
    [[nodiscard]] size_t size() const { return bytes_.size() - kGuard; }

    // What the requester sends or the responder offers to a READ or an atomic.
    void fill_source();
    // Empty, or what is wrong with this message in the memory it was written to.
    [[nodiscard]] std::string check_target(uint32_t message);
    // Atomics: what the requester got back, what the responder holds afterwards.
    [[nodiscard]] std::string check_result(uint32_t message);
    [[nodiscard]] std::string check_after(uint32_t message);
    [[nodiscard]] std::string check_untouched(uint32_t message);
    // Where messages may be lost: a slot that holds some message as a whole; guards only.
    [[nodiscard]] std::string check_some_target(uint32_t slot);
    [[nodiscard]] std::string check_guards(uint32_t message);

    static constexpr uint64_t kSwap = 0xC0FFEE00u;
    [[nodiscard]] static uint64_t before(uint32_t message) { return 1000 + message; }
    [[nodiscard]] static uint64_t operand(uint32_t message) { return 5 + message; }
    // A compare and swap of an odd message finds another value.
    [[nodiscard]] static uint64_t compare(uint32_t message) { return before(message) + message % 2; }

  private:
    static constexpr size_t kGuard = 64;
    static constexpr std::byte kEmpty{0xEE};
    [[nodiscard]] std::byte pattern(uint32_t message, size_t at) const;
    [[nodiscard]] uint64_t word(uint32_t message);

    const Case& case_;
    uint32_t size_;
    size_t stride_;
    std::vector<std::byte> bytes_;
};

}  // namespace interop
