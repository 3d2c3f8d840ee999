// SPDX-License-Identifier: BSD-3-Clause
// Choice of the CRC-32 kernel and the arithmetic on finished parts (shift, combine).
// The kernel pointer is written during start-up and by tests only; threads read it without synchronisation.
#include "wire/crc32.h"

#include <array>
#include <cstring>

#include "wire/crc32_gf2.h"
#include "wire/crc32_kernels.h"

namespace rocemu::wire {
namespace {

struct Available {
    std::array<const CrcKernel*, 3> kernels{};
    size_t count = 0;
};

// Asks the CPU and, through the AVX check, the operating system.
Available detect() {
    __builtin_cpu_init();
    Available a;
    a.kernels[a.count++] = &crc::kTableKernel;
    const bool clmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (clmul) a.kernels[a.count++] = &crc::kPclmulKernel;
    if (clmul && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2"))
        a.kernels[a.count++] = &crc::kVpclmulKernel;
    return a;
}

const Available& available() {
    static const Available a = detect();
    return a;
}

// Constant-initialised, so a CRC taken by another file's static initialiser is right too, only slower.
constinit const CrcKernel* active = &crc::kTableKernel;
[[maybe_unused]] const bool kSelected = [] {
    active = available().kernels[available().count - 1];
    return true;
}();

// kZeroBytes[k][n] = x^(8 * n * 256^k) mod P: what n * 256^k zero bytes do to a state.
using ZeroTables = std::array<std::array<uint32_t, 256>, 4>;
constexpr ZeroTables make_zero_tables() {
    ZeroTables t{};
    uint32_t step = gf2::x_to_the(8);
    for (auto& level : t) {
        level[0] = gf2::kOne;
        for (size_t n = 1; n < level.size(); ++n) level[n] = gf2::multiply(level[n - 1], step);
        step = gf2::multiply(level[255], step);
    }
    return t;
}
constexpr ZeroTables kZeroBytes = make_zero_tables();

}  // namespace

std::span<const CrcKernel* const> crc_kernels() {
    return {available().kernels.data(), available().count};
}

const CrcKernel& active_crc_kernel() {
    return *active;
}

bool select_crc_kernel(const char* name) {
    for (const CrcKernel* kernel : crc_kernels()) {
        if (std::strcmp(kernel->name, name) != 0) continue;
        active = kernel;
        return true;
    }
    return false;
}

uint32_t crc32_update(uint32_t crc, const std::byte* data, size_t size) {
    return active->update(crc, data, size);
}

uint32_t crc32_copy(uint32_t crc, std::byte* dst, const std::byte* src, size_t size) {
    return active->copy(crc, dst, src, size);
}

uint32_t crc32_shift(uint32_t crc, size_t size) {
    for (size_t level = 0; size > 0 && level < kZeroBytes.size(); ++level, size >>= 8)
        if (const size_t n = size & 0xff; n != 0) crc = active->multiply(crc, kZeroBytes[level][n]);
    return crc;
}

}  // namespace rocemu::wire
