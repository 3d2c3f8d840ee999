// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 (reflected polynomial 0xEDB88320) as a running state, fast enough to be invisible beside a copy.
// Read IEEE 802.3 3.2.9 for the polynomial and IBTA volume 1, 7.8.1 for its use as ICRC.
//
// A state is the raw register: no inversion before or after. A whole CRC-32 is ~crc32_update(~0u, data, size).
// Kernels (crc32_*.cpp) are chosen once at start by what the CPU can do; all give the same results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rocemu::wire {

struct CrcKernel {
    const char* name;  // "table", "pclmul", "vpclmul"
    uint32_t (*update)(uint32_t crc, const std::byte* data, size_t size);
    uint32_t (*copy)(uint32_t crc, std::byte* dst, const std::byte* src, size_t size);
    // State after data[i] | mask[i] for every i < size. Both may be read for exactly `size` bytes.
    uint32_t (*update_masked)(uint32_t crc, const std::byte* data, const std::byte* mask, size_t size);
    // State after head[i] | mask[i] for every i < head_size and then body, which is also copied to dst if that is not
    // nullptr: as update_masked followed by update or copy, but with one reduction for both.
    uint32_t (*headed)(uint32_t crc, const std::byte* head, const std::byte* mask, size_t head_size, std::byte* dst,
                       const std::byte* body, size_t size);
    // Product of two polynomials modulo the CRC polynomial, reflected (see crc32_gf2.h).
    uint32_t (*multiply)(uint32_t a, uint32_t b);
};

// Kernels this CPU can run, slowest (table, always there) first. The last is in use unless select_crc_kernel chose.
[[nodiscard]] std::span<const CrcKernel* const> crc_kernels();
[[nodiscard]] const CrcKernel& active_crc_kernel();
// For tests and benchmarks, before threads start. False if the CPU has no kernel of that name.
bool select_crc_kernel(const char* name);

// State after `size` more bytes.
[[nodiscard]] uint32_t crc32_update(uint32_t crc, const std::byte* data, size_t size);

// The same while copying src to dst (not overlapping): each byte is read once, so what was copied is what was summed.
[[nodiscard]] uint32_t crc32_copy(uint32_t crc, std::byte* dst, const std::byte* src, size_t size);

// State after `size` zero bytes, in a time that does not depend on size (below 2^32).
[[nodiscard]] uint32_t crc32_shift(uint32_t crc, size_t size);

// State after A then B, from a = state after A and b = crc32_update(0, B): the parts can be computed apart, in any
// order, and B (a payload) once for several A (headers of retransmissions).
[[nodiscard]] inline uint32_t crc32_combine(uint32_t a, uint32_t b, size_t size_b) {
    return crc32_shift(a, size_b) ^ b;
}

}  // namespace rocemu::wire
