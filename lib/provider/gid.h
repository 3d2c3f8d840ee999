// SPDX-License-Identifier: BSD-3-Clause
// Look-ups in the GID table for other verbs.
#pragma once

#include "provider/objects.h"

namespace rocemu::provider {

// 0 and the index of `gid` with this type (enum ibv_gid_type), or errno: ENOENT if the port has none.
int find_gid(Context& context, const ibv_gid& gid, uint32_t type, uint32_t& index);

}  // namespace rocemu::provider
