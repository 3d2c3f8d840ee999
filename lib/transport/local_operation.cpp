// SPDX-License-Identifier: BSD-3-Clause
// See local_operation.h.
#include "transport/local_operation.h"

namespace rocemu::transport {

bool run_local_operation(QpContext& ctx, const SendWqe& wqe) {
    memory::KeyTable& keys = ctx.env.keys;
    if (wqe.opcode == WrOpcode::LocalInv) return keys.invalidate(wqe.imm_data, ctx.config.pd, ctx.config.qpn);
    memory::WindowBind bind;
    bind.key = wqe.rkey;
    bind.region = wqe.imm_data;
    bind.pd = ctx.config.pd;
    bind.qpn = ctx.config.qpn;
    bind.access = static_cast<uint32_t>(wqe.swap);
    bind.addr = wqe.remote_addr;
    bind.length = wqe.compare_add;
    if (keys.kind_of(bind.key) == memory::KeyKind::WindowType1) return keys.is_bound(bind);
    if (!keys.bind(bind)) return false;
    ctx.has_windows = true;
    return true;
}

}  // namespace rocemu::transport
