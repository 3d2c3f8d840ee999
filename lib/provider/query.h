// SPDX-License-Identifier: BSD-3-Clause
// Queries that are reached by symbol and by table: implemented once, here declared. All return 0 or an errno value.
#pragma once

#include "provider/verbs.h"

namespace rocemu::provider {

int query_device(ibv_context* context, ibv_device_attr* attr);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    size_t attr_size);
int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t attr_size);
// The function behind the symbol and the oldest table entry, whose callers know a shorter structure.
int query_port_short(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

}  // namespace rocemu::provider
