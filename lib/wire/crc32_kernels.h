// SPDX-License-Identifier: BSD-3-Clause
// The kernels behind crc32.h, private to lib/wire: one file each, compiled with function target attributes so that the
// build needs no -march and the choice is made at run time.
#pragma once

#include "wire/crc32.h"

namespace rocemu::wire::crc {

extern const CrcKernel kTableKernel;    // slice-by-8, any CPU
extern const CrcKernel kPclmulKernel;   // PCLMULQDQ, SSSE3, SSE4.1
extern const CrcKernel kVpclmulKernel;  // VPCLMULQDQ on 256-bit registers, AVX2

// The table kernel by its functions, for the short inputs and tails of the others.
[[nodiscard]] uint32_t table_update(uint32_t crc, const std::byte* data, size_t size);
[[nodiscard]] uint32_t table_update_masked(uint32_t crc, const std::byte* data, const std::byte* mask, size_t size);

}  // namespace rocemu::wire::crc
