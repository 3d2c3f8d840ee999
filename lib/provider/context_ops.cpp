// SPDX-License-Identifier: BSD-3-Clause
// The tables through which verbs.h's inline functions reach us. An entry that is null makes its caller return EOPNOTSUPP;
// entries that are called unchecked get a function that says so.
#include <array>

#include "provider/cq.h"
#include "provider/flow.h"
#include "provider/objects.h"
#include "provider/qp.h"
#include "provider/query.h"
#include "provider/srq.h"

namespace rocemu::provider {
namespace {

// verbs_context::priv is libibverbs' own; functions of newer releases that we do not provide look for drivers' functions
// behind it. Whatever they find says EOPNOTSUPP.
int unsupported() {
    errno = EOPNOTSUPP;
    return 0;
}
using Stub = int (*)();
constexpr std::array<Stub, 512> make_stubs() {
    std::array<Stub, 512> a{};
    a.fill(unsupported);
    return a;
}
std::array<Stub, 512> private_stubs = make_stubs();

}  // namespace

void fill_context_ops(Context& context) {
    verbs_context& v = context.verbs;
    v.sz = sizeof v;
    v.context.abi_compat = reinterpret_cast<void*>(UINTPTR_MAX);  // __VERBS_ABI_IS_EXTENDED
    v.priv = reinterpret_cast<verbs_ex_private*>(private_stubs.data());
    v.query_port = query_port;
    v.query_device_ex = query_device_ex;
    v.query_rt_values = query_rt_values;
    v.create_cq_ex = create_cq_ex;
    v.modify_cq = modify_cq;
    v.modify_qp_rate_limit = modify_qp_rate_limit;
    v.create_qp_ex = create_qp_ex;
    v.create_srq_ex = create_srq_ex;
    v.alloc_td = alloc_td;
    v.dealloc_td = dealloc_td;
    v.alloc_parent_domain = alloc_parent_domain;
    v.alloc_dm = alloc_dm;
    v.free_dm = free_dm;
    v.reg_dm_mr = reg_dm_mr;
    v.advise_mr = advise_mr;
    v.alloc_null_mr = alloc_null_mr;
    v.open_xrcd = open_xrcd;
    v.close_xrcd = close_xrcd;
    v.open_qp = open_qp;
    v.get_srq_num = get_srq_num;
    v.ibv_create_flow = create_flow;
    v.ibv_destroy_flow = destroy_flow;
    v.create_wq = create_wq;
    v.modify_wq = modify_wq;
    v.destroy_wq = destroy_wq;
    v.create_rwq_ind_table = create_rwq_ind_table;
    v.destroy_rwq_ind_table = destroy_rwq_ind_table;

    ibv_context_ops& o = v.context.ops;
    o._compat_query_device = query_device;
    o._compat_query_port = query_port_short;
    o.alloc_mw = alloc_mw;
    o.dealloc_mw = dealloc_mw;
    o.bind_mw = bind_mw;
    o.poll_cq = poll_cq;
    o.req_notify_cq = req_notify_cq;
    o.post_srq_recv = post_srq_recv;
    o.post_send = post_send;
    o.post_recv = post_recv;
}

}  // namespace rocemu::provider
