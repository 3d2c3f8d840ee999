// SPDX-License-Identifier: BSD-3-Clause
// ibv_query_port in its two forms, and the device clock.
#include <algorithm>
#include <cstring>

#include <time.h>

#include "provider/objects.h"
#include "provider/query.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t attr_size) {
    Context* c = Context::of(context);
    if (port != 1) return EINVAL;
    abi::QueryPortReply r;
    if (const int rc = c->session->call(abi::QueryPortRequest{c->id, port}, r); rc != 0) return rc;
    ibv_port_attr full{};
    full.state = static_cast<ibv_port_state>(r.state);
    full.max_mtu = static_cast<ibv_mtu>(r.max_mtu);
    full.active_mtu = static_cast<ibv_mtu>(r.active_mtu);
    full.gid_tbl_len = static_cast<int>(r.gid_tbl_len);
    full.port_cap_flags = r.port_cap_flags;
    full.max_msg_sz = r.max_msg_sz;
    full.pkey_tbl_len = static_cast<uint16_t>(r.pkey_tbl_len);
    full.max_vl_num = 1;
    full.active_width = static_cast<uint8_t>(r.active_width);
    full.active_speed = static_cast<uint8_t>(r.active_speed);
    full.phys_state = static_cast<uint8_t>(r.phys_state);
    full.link_layer = static_cast<uint8_t>(r.link_layer);
    full.flags = IBV_QPF_GRH_REQUIRED;  // RoCE addresses by GID only
    std::memset(attr, 0, attr_size);
    std::memcpy(attr, &full, std::min(attr_size, sizeof full));
    return 0;
}

int query_port_short(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
    return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

// The clock of completion timestamps, in their unit and all of it in tv_nsec: as mlx5 has it, and programs expect it.
int query_rt_values(ibv_context*, ibv_values_ex* values) {
    if ((values->comp_mask & ~static_cast<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) != 0) return EINVAL;
    if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0) return 0;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    values->raw_clock = {0, now.tv_sec * 1'000'000'000 + now.tv_nsec};
    return 0;
}

}  // namespace rocemu::provider

using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
    if (!ours(context)) return real().ibv_query_port(context, port, attr);
    return query_port_short(context, port, attr);
}
