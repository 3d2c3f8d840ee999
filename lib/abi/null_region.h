// SPDX-License-Identifier: BSD-3-Clause
// The null region (ibv_alloc_null_mr(3)): what is written there is forgotten, what is read is zero, at every address. It
// has an lkey only: peers have no rights to it.
#pragma once

#include <cstdint>

namespace rocemu::abi {

// Alone in RegMrRequest::access: the region is a null region, and the rest of the request means nothing.
inline constexpr uint32_t kNullRegion = 1u << 19;
// The address space that it lies in: no session has this number.
inline constexpr uint32_t kNullSpace = 0;

}  // namespace rocemu::abi
