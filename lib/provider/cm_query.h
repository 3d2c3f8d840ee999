// SPDX-License-Identifier: BSD-3-Clause
// What the rdma_cm device tells about an id: QUERY_ROUTE, and QUERY with its options. Read rdma_resolve_route(3),
// <rdma/rdma_user_cm.h>.
#pragma once

#include "provider/cm_command.h"

namespace rocemu::provider {

// 0 or an errno value.
int query_cm_route(const CmCommand& command);
int query_cm(const CmCommand& command);

}  // namespace rocemu::provider
