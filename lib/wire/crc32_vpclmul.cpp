// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 by carry-less multiplication on 256-bit registers, four of them (128 bytes) a step: AMD from Zen 3, Intel from
// Ice Lake. No AVX-512 needed. The method is described in crc32_clmul_inl.h.
#include "wire/crc32_clmul_inl.h"

#define ROCEMU_VPCLMUL_TARGET __attribute__((target("vpclmulqdq,avx2,pclmul,ssse3,sse4.1")))
#define ROCEMU_VPCLMUL_INLINE ROCEMU_VPCLMUL_TARGET __attribute__((always_inline)) inline

namespace rocemu::wire::crc {
namespace {

constexpr gf2::FoldPair kFold96Bytes = gf2::fold_by(96);
constexpr gf2::FoldPair kFold128Bytes = gf2::fold_by(128);

template <Mode mode>
ROCEMU_VPCLMUL_INLINE __m256i load32(const Source& s, size_t offset) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.data + offset));
    if constexpr (mode == Mode::Copy) asm("" : "+x"(v));  // read once: what is summed is what is copied
    if constexpr (mode == Mode::Copy) _mm256_storeu_si256(reinterpret_cast<__m256i*>(s.dst + offset), v);
    if constexpr (mode == Mode::Masked)
        v = _mm256_or_si256(v, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s.mask + offset)));
    return v;
}

ROCEMU_VPCLMUL_INLINE __m256i twice(const gf2::FoldPair& pair) {
    return _mm256_broadcastsi128_si256(constants(pair));
}

ROCEMU_VPCLMUL_INLINE __m256i fold_both(__m256i residue, __m256i pair) {
    return _mm256_xor_si256(_mm256_clmulepi64_epi128(residue, pair, 0x00),
                            _mm256_clmulepi64_epi128(residue, pair, 0x11));
}

// As fold_rest.
template <Mode mode>
ROCEMU_VPCLMUL_INLINE __m128i fold_all(__m128i x, const Source& s, size_t at, size_t size) {
    if (size - at >= 48) {
        // y: two residues side by side; the first is what came before, the second the 16 bytes behind it.
        __m256i y = _mm256_inserti128_si256(_mm256_castsi128_si256(x), load16<mode>(s, at), 1);
        at += 16;
        if (size - at >= 96 + 128) {
            const __m256i by128 = twice(kFold128Bytes);
            __m256i y1 = load32<mode>(s, at), y2 = load32<mode>(s, at + 32), y3 = load32<mode>(s, at + 64);
            for (at += 96; size - at >= 128; at += 128) {
                y = _mm256_xor_si256(fold_both(y, by128), load32<mode>(s, at));
                y1 = _mm256_xor_si256(fold_both(y1, by128), load32<mode>(s, at + 32));
                y2 = _mm256_xor_si256(fold_both(y2, by128), load32<mode>(s, at + 64));
                y3 = _mm256_xor_si256(fold_both(y3, by128), load32<mode>(s, at + 96));
            }
            y = _mm256_xor_si256(_mm256_xor_si256(fold_both(y, twice(kFold96Bytes)), fold_both(y1, twice(kFold64))),
                                 _mm256_xor_si256(fold_both(y2, twice(kFold32)), y3));
        }
        const __m256i by32 = twice(kFold32);
        for (; size - at >= 32; at += 32) y = _mm256_xor_si256(fold_both(y, by32), load32<mode>(s, at));
        x = _mm_xor_si128(fold(_mm256_castsi256_si128(y), constants(kFold16)), _mm256_extracti128_si256(y, 1));
    }
    return fold_rest<mode>(x, s, at, size);
}

template <Mode mode>
ROCEMU_VPCLMUL_TARGET uint32_t run(uint32_t crc, const Source& s, size_t size) {
    if (size < 16) return run_short<mode>(crc, s, size);
    size_t at;
    const __m128i x = begin<mode>(crc, s, size, at);
    return finish(fold_all<mode>(x, s, at, size));
}

template <Mode mode>
ROCEMU_VPCLMUL_TARGET uint32_t run_headed(__m128i head, const Source& body, size_t size) {
    return finish(fold_all<mode>(head, body, 0, size));
}

uint32_t update(uint32_t crc, const std::byte* data, size_t size) {
    return run<Mode::Update>(crc, {data, nullptr, nullptr}, size);
}
uint32_t copy(uint32_t crc, std::byte* dst, const std::byte* src, size_t size) {
    return run<Mode::Copy>(crc, {src, dst, nullptr}, size);
}
uint32_t update_masked(uint32_t crc, const std::byte* data, const std::byte* mask, size_t size) {
    return run<Mode::Masked>(crc, {data, nullptr, mask}, size);
}
ROCEMU_VPCLMUL_TARGET uint32_t headed(uint32_t crc, const std::byte* head, const std::byte* mask, size_t head_size,
                                      std::byte* dst, const std::byte* body, size_t size) {
    if (head_size < 16 || size % 16 != 0) {
        crc = update_masked(crc, head, mask, head_size);
        return dst == nullptr ? update(crc, body, size) : copy(crc, dst, body, size);
    }
    const __m128i x = residue_of_head(crc, head, mask, head_size);
    return dst == nullptr ? run_headed<Mode::Update>(x, {body, nullptr, nullptr}, size)
                          : run_headed<Mode::Copy>(x, {body, dst, nullptr}, size);
}
uint32_t multiply(uint32_t a, uint32_t b) {
    return kPclmulKernel.multiply(a, b);
}

}  // namespace

const CrcKernel kVpclmulKernel{"vpclmul", update, copy, update_masked, headed, multiply};

}  // namespace rocemu::wire::crc
