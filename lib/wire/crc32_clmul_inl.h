// SPDX-License-Identifier: BSD-3-Clause
// Pieces shared by the two carry-less-multiply kernels; included by them only. Everything here is forced inline into
// functions whose target attribute allows these instructions.
//
// Method: a 128-bit register holds a residue R congruent to all bytes so far. "Folding by D bits" replaces R by the
// congruent value R * x^D, to be XORed with the bytes D bits further on: two multiplications by constants x^(D+32),
// x^(D-32) mod P. At the end 128 bits are reduced to 32 (Barrett). A length that is no multiple of 16 is dealt with at
// the front, where it costs two shuffles: the first `r` bytes are shifted to the end of a register full of zeros.
#pragma once

#include <immintrin.h>

#include <array>

#include "wire/crc32_gf2.h"
#include "wire/crc32_kernels.h"

#define ROCEMU_CLMUL_TARGET __attribute__((target("pclmul,ssse3,sse4.1")))
#define ROCEMU_CLMUL_INLINE ROCEMU_CLMUL_TARGET __attribute__((always_inline)) inline

namespace rocemu::wire::crc {

// Where bytes come from: plain, also written to dst, or ORed with a mask.
enum class Mode { Update, Copy, Masked };

struct Source {
    const std::byte* data;
    std::byte* dst;
    const std::byte* mask;
};

template <Mode mode>
ROCEMU_CLMUL_INLINE __m128i load16(const Source& s, size_t offset) {
    __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s.data + offset));
    if constexpr (mode == Mode::Copy) asm("" : "+x"(v));  // read once: what is summed is what is copied
    if constexpr (mode == Mode::Copy) _mm_storeu_si128(reinterpret_cast<__m128i*>(s.dst + offset), v);
    if constexpr (mode == Mode::Masked)
        v = _mm_or_si128(v, _mm_loadu_si128(reinterpret_cast<const __m128i*>(s.mask + offset)));
    return v;
}

ROCEMU_CLMUL_INLINE __m128i constants(const gf2::FoldPair& pair) {
    return _mm_set_epi64x(static_cast<int64_t>(pair.high), static_cast<int64_t>(pair.low));
}

ROCEMU_CLMUL_INLINE __m128i fold(__m128i residue, __m128i pair) {
    return _mm_xor_si128(_mm_clmulepi64_si128(residue, pair, 0x00), _mm_clmulepi64_si128(residue, pair, 0x11));
}

inline constexpr gf2::FoldPair kFold16 = gf2::fold_by(16);
inline constexpr gf2::FoldPair kFold32 = gf2::fold_by(32);
inline constexpr gf2::FoldPair kFold48 = gf2::fold_by(48);
inline constexpr gf2::FoldPair kFold64 = gf2::fold_by(64);

// Indices for a byte shuffle, read at an offset: 0x80 gives zero. At 16 + n: shift towards byte 0 by n; at r: keep the
// first r bytes and move them to the end.
alignas(16) inline constexpr std::array<uint8_t, 48> kShiftIndices = [] {
    std::array<uint8_t, 48> t{};
    for (size_t i = 0; i < t.size(); ++i) t[i] = i >= 16 && i < 32 ? static_cast<uint8_t>(i - 16) : 0x80;
    return t;
}();

ROCEMU_CLMUL_INLINE __m128i shift_indices(size_t offset) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(kShiftIndices.data() + offset));
}

// Residue of the first 16 + size % 16 bytes, the state included. Sets `offset` behind them. Precondition: size >= 16.
template <Mode mode>
ROCEMU_CLMUL_INLINE __m128i begin(uint32_t crc, const Source& s, size_t size, size_t& offset) {
    const __m128i state = _mm_cvtsi32_si128(static_cast<int>(crc));
    const size_t r = size % 16;
    if (r == 0) {
        offset = 16;
        return _mm_xor_si128(load16<mode>(s, 0), state);
    }
    const __m128i head = _mm_xor_si128(load16<mode>(s, 0), state);
    const __m128i first = _mm_shuffle_epi8(head, shift_indices(r));
    const __m128i state_left = _mm_shuffle_epi8(state, shift_indices(16 + r));  // what did not fit into r < 4 bytes
    offset = 16 + r;
    return _mm_xor_si128(fold(first, constants(kFold16)), _mm_xor_si128(load16<mode>(s, r), state_left));
}

// Residue of all bytes in front of `at` to that of all `size`. Precondition: size - at is a multiple of 16.
template <Mode mode>
ROCEMU_CLMUL_INLINE __m128i fold_rest(__m128i residue, const Source& s, size_t at, size_t size) {
    const __m128i by16 = constants(kFold16);
    for (; at < size; at += 16) residue = _mm_xor_si128(fold(residue, by16), load16<mode>(s, at));
    return residue;
}

// The masked bytes in front of a body (CrcKernel::headed). Precondition: size >= 16.
ROCEMU_CLMUL_INLINE __m128i residue_of_head(uint32_t crc, const std::byte* head, const std::byte* mask, size_t size) {
    const Source s{head, nullptr, mask};
    size_t at;
    const __m128i residue = begin<Mode::Masked>(crc, s, size, at);
    return fold_rest<Mode::Masked>(residue, s, at, size);
}

// 64 bits (reflected) modulo P, by multiplying with the reciprocal of P.
ROCEMU_CLMUL_INLINE uint32_t reduce64(__m128i v) {
    const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
    const __m128i barrett =
        _mm_set_epi64x(static_cast<int64_t>(gf2::kPolyWithTop), static_cast<int64_t>(gf2::barrett_quotient()));
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(v, low32), barrett, 0x00);
    q = _mm_clmulepi64_si128(_mm_and_si128(q, low32), barrett, 0x10);
    return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(v, q), 1));
}

// The CRC state for a residue: R * x^32 mod P. 128 to 96 to 64 bits by folding, then reduce64.
ROCEMU_CLMUL_INLINE uint32_t finish(__m128i residue) {
    constexpr uint64_t kFold96 = gf2::folding_constant(96);
    constexpr uint64_t kFold64Bits = gf2::folding_constant(64);
    const __m128i pair = _mm_set_epi64x(static_cast<int64_t>(kFold64Bits), static_cast<int64_t>(kFold96));
    const __m128i low32 = _mm_set_epi32(0, 0, 0, -1);
    __m128i v = _mm_xor_si128(_mm_srli_si128(residue, 8), _mm_clmulepi64_si128(residue, pair, 0x00));
    v = _mm_xor_si128(_mm_srli_si128(v, 4), _mm_clmulepi64_si128(_mm_and_si128(v, low32), pair, 0x10));
    return reduce64(v);
}

// Fewer than 16 bytes: not worth a multiplication.
template <Mode mode>
inline uint32_t run_short(uint32_t crc, const Source& s, size_t size) {
    if constexpr (mode == Mode::Update) return table_update(crc, s.data, size);
    if constexpr (mode == Mode::Copy) return kTableKernel.copy(crc, s.dst, s.data, size);
    if constexpr (mode == Mode::Masked) return table_update_masked(crc, s.data, s.mask, size);
}

}  // namespace rocemu::wire::crc
