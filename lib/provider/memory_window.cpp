// SPDX-License-Identifier: BSD-3-Clause
// Memory windows. ibv_bind_mw(3) is for windows of type 1, a work request for those of type 2 (post_send.cpp).
#include <new>

#include "base/verbs_types.h"
#include "provider/qp.h"

namespace rocemu::provider {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return fail_pointer<ibv_mw>(EINVAL);
    auto* mw = new (std::nothrow) Mw{};
    if (mw == nullptr) return fail_pointer<ibv_mw>(ENOMEM);
    abi::AllocMwReply reply;
    const int rc = Pd::of(pd)->context().session->call(abi::AllocMwRequest{pd->handle, type}, reply);
    if (rc != 0) {
        delete mw;
        return fail_pointer<ibv_mw>(rc);
    }
    mw->base.context = pd->context;
    mw->base.pd = pd;
    mw->base.rkey = mw->base.handle = reply.key;
    mw->base.type = type;
    return &mw->base;
}

int dealloc_mw(ibv_mw* base) {
    const int rc = Context::of(base->context)->session->undo(abi::DeallocMwRequest{base->handle});
    if (rc == 0) delete reinterpret_cast<Mw*>(base);
    return rc;
}

// The window is bound before its work request is written, which then reports it in its turn.
int bind_mw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) {
    const ibv_mw_bind_info& info = bind->bind_info;
    Qp& qp = *Qp::of(base);
    const ibv_qp_type type = base->qp_type;
    if (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_XRC_SEND) return EINVAL;
    // By the handle: a parent domain, or an imported PD, is the same one.
    if (Context::of(mw->context)->session != qp.session || mw->pd->handle != base->pd->handle) return EINVAL;
    if (base->state != IBV_QPS_RTS && base->state != IBV_QPS_SQD) return EINVAL;
    if (info.mr == nullptr && info.length != 0) return EINVAL;
    if (qp.sq.outstanding() >= qp.sq.depth) return ENOMEM;
    abi::BindMwRequest request;
    request.qpn = base->qp_num;
    request.window = mw->handle;
    request.region = info.mr != nullptr ? info.mr->lkey : 0;
    request.access = info.mw_access_flags;
    request.addr = info.addr;
    request.length = info.length;
    abi::BindMwReply reply;
    if (const int rc = qp.session->call(request, reply); rc != 0) return rc;
    // mw is handed on for its rkey only, which is to be the new one.
    ibv_mw as_bound = *mw;
    as_bound.rkey = reply.key;
    as_bound.type = IBV_MW_TYPE_2;
    ibv_send_wr wr{};
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind->send_flags;
    wr.bind_mw.mw = &as_bound;
    wr.bind_mw.rkey = reply.key;
    wr.bind_mw.bind_info = info;
    ibv_send_wr* bad = nullptr;
    const int rc = post_send(base, &wr, &bad);
    if (reply.bound != 0) mw->rkey = reply.key;
    return rc;
}

}  // namespace rocemu::provider
