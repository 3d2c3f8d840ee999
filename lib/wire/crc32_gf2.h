// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of polynomials over GF(2) modulo the CRC-32 polynomial, at compile time or in plain code: the folding
// constants of the kernels and the zero-byte shift come from here instead of from tables of numbers.
//
// Reflected form: bit 31 of a 32-bit value is x^0, bit 0 is x^31; multiplying by x is a right shift.
#pragma once

#include <cstdint>

namespace rocemu::wire::gf2 {

inline constexpr uint32_t kPoly = 0xedb88320;  // IEEE 802.3 3.2.9, reflected, without x^32
inline constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t times_x(uint32_t v) {
    return (v >> 1) ^ (v & 1 ? kPoly : 0);
}

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 0; i < 32; ++i) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = times_x(b);
    }
    return product;
}

constexpr uint32_t x_to_the(uint64_t exponent) {
    uint32_t result = kOne;
    uint32_t power = kOne >> 1;  // x, then squared again and again
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = multiply(result, power);
        power = multiply(power, power);
    }
    return result;
}

// A carry-less product of two reflected values comes out one bit too low; the constants carry the correction.
constexpr uint64_t folding_constant(uint64_t exponent) {
    return uint64_t{x_to_the(exponent)} << 1;
}

// Constants that move a 128-bit residue `bytes` ahead: the low (earlier) half first.
struct FoldPair {
    uint64_t low;
    uint64_t high;
};
constexpr FoldPair fold_by(uint64_t bytes) {
    return {folding_constant(8 * bytes + 32), folding_constant(8 * bytes - 32)};
}

// Reflected quotient x^64 / P (33 bits), for the Barrett reduction.
constexpr uint64_t barrett_quotient() {
    uint64_t quotient = 1;       // coefficient of x^32, at bit 0
    uint32_t remainder = kPoly;  // x^32 mod P; each further step brings one more coefficient
    for (int i = 1; i <= 32; ++i) {
        quotient |= uint64_t{remainder & 1} << i;
        remainder = times_x(remainder);
    }
    return quotient;
}
inline constexpr uint64_t kPolyWithTop = uint64_t{kPoly} << 1 | 1;

}  // namespace rocemu::wire::gf2
