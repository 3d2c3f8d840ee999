// SPDX-License-Identifier: BSD-3-Clause
// The portable CRC-32 kernel: eight bytes a step through eight tables (slice-by-8), made at compile time.
// Table n holds what a byte contributes when n more bytes follow it.
#include <array>
#include <cstring>

#include "wire/crc32_gf2.h"
#include "wire/crc32_kernels.h"

namespace rocemu::wire::crc {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables t{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t v = byte;
        for (int bit = 0; bit < 8; ++bit) v = gf2::times_x(v);
        t[0][byte] = v;
    }
    for (size_t n = 1; n < t.size(); ++n)
        for (size_t byte = 0; byte < 256; ++byte) t[n][byte] = (t[n - 1][byte] >> 8) ^ t[0][t[n - 1][byte] & 0xff];
    return t;
}
constexpr Tables kTables = make_tables();

uint32_t step_byte(uint32_t crc, std::byte b) {
    return (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(b)) & 0xff];
}

uint32_t step_word(uint32_t crc, uint64_t word) {
    word ^= crc;
    uint32_t next = 0;
    for (size_t i = 0; i < 8; ++i) next ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
    return next;
}

uint64_t load_word(const std::byte* p) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

uint32_t table_copy(uint32_t crc, std::byte* dst, const std::byte* src, size_t size) {
    // What is stored is what was summed, even if somebody changes src meanwhile.
    for (; size >= 8; size -= 8, src += 8, dst += 8) {
        const uint64_t word = load_word(src);
        std::memcpy(dst, &word, sizeof word);
        crc = step_word(crc, word);
    }
    for (; size > 0; --size) {
        const std::byte b = *src++;
        *dst++ = b;
        crc = step_byte(crc, b);
    }
    return crc;
}

}  // namespace

uint32_t table_update(uint32_t crc, const std::byte* data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) crc = step_word(crc, load_word(data));
    for (; size > 0; --size) crc = step_byte(crc, *data++);
    return crc;
}

uint32_t table_update_masked(uint32_t crc, const std::byte* data, const std::byte* mask, size_t size) {
    for (; size >= 8; size -= 8, data += 8, mask += 8) crc = step_word(crc, load_word(data) | load_word(mask));
    for (; size > 0; --size) crc = step_byte(crc, *data++ | *mask++);
    return crc;
}

namespace {

uint32_t table_headed(uint32_t crc, const std::byte* head, const std::byte* mask, size_t head_size, std::byte* dst,
                      const std::byte* body, size_t size) {
    crc = table_update_masked(crc, head, mask, head_size);
    return dst == nullptr ? table_update(crc, body, size) : table_copy(crc, dst, body, size);
}

}  // namespace

const CrcKernel kTableKernel{"table", table_update, table_copy, table_update_masked, table_headed, gf2::multiply};

}  // namespace rocemu::wire::crc
