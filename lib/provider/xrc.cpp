// SPDX-License-Identifier: BSD-3-Clause
// XRC domains and handles of target QPs (ibv_open_xrcd(3), ibv_open_qp(3)). A target has no queues here: its receives are
// those of the domain's SRQs (srq.cpp), and complete to their CQs.
#include <new>

#include <fcntl.h>

#include "provider/qp.h"

namespace rocemu::provider {

ibv_xrcd* open_xrcd(ibv_context* base, ibv_xrcd_init_attr* attr) {
    constexpr uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED) return fail_pointer<ibv_xrcd>(EOPNOTSUPP);
    if ((attr->comp_mask & kNeeded) != kNeeded) return fail_pointer<ibv_xrcd>(EINVAL);
    auto* xrcd = new (std::nothrow) Xrcd{};
    if (xrcd == nullptr) return fail_pointer<ibv_xrcd>(ENOMEM);
    Context& context = *Context::of(base);
    abi::OpenXrcdRequest request;
    request.context = context.id;
    if ((attr->oflags & O_CREAT) != 0) request.flags |= abi::xrcd_flags::kCreate;
    if ((attr->oflags & O_EXCL) != 0) request.flags |= abi::xrcd_flags::kExclusive;
    std::span<const int> fds;
    if (attr->fd != -1) {
        // A bad descriptor could not be sent at all.
        if (fcntl(attr->fd, F_GETFD) < 0) {
            delete xrcd;
            return fail_pointer<ibv_xrcd>(EBADF);
        }
        request.flags |= abi::xrcd_flags::kOfFile;
        fds = {&attr->fd, 1};
    }
    abi::OpenXrcdReply reply;
    if (const int rc = context.session->call(request, reply, fds); rc != 0) {
        delete xrcd;
        return fail_pointer<ibv_xrcd>(rc);
    }
    xrcd->base.context = base;
    xrcd->handle = reply.xrcd;
    return &xrcd->base;
}

int close_xrcd(ibv_xrcd* base) {
    Xrcd* xrcd = Xrcd::of(base);
    const int rc = Context::of(base->context)->session->undo(abi::CloseXrcdRequest{xrcd->handle});
    if (rc == 0) delete xrcd;
    return rc;
}

ibv_qp* create_target(ibv_context* base, const ibv_qp_init_attr_ex& attr) {
    constexpr uint32_t kPlain = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD;  // a PD has no meaning, and does no harm
    if ((attr.comp_mask & ~kPlain) != 0) return fail_pointer<ibv_qp>(EOPNOTSUPP);
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr || attr.xrcd->context != base)
        return fail_pointer<ibv_qp>(EINVAL);
    auto* qp = new (std::nothrow) Qp{};
    if (qp == nullptr) return fail_pointer<ibv_qp>(ENOMEM);
    Session& session = *Context::of(base)->session;
    abi::CreateQpRequest request;
    request.type = IBV_QPT_XRC_RECV;
    request.xrcd = Xrcd::of(attr.xrcd)->handle;
    request.cookie = qp->cookie = session.new_cookie();
    abi::CreateQpReply reply;
    if (const int rc = session.call(request, reply); rc != 0) {
        delete qp;
        return fail_pointer<ibv_qp>(rc);
    }
    ibv_qp_init_attr seen{};
    seen.qp_context = attr.qp_context;
    seen.qp_type = IBV_QPT_XRC_RECV;
    introduce(*qp, session, base, seen, reply.qpn);
    // librdmacm takes the PD of its shared receive queue from here.
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0) qp->base()->pd = attr.pd;
    return qp->base();
}

ibv_qp* open_qp(ibv_context* base, ibv_qp_open_attr* attr) {
    constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) return fail_pointer<ibv_qp>(EOPNOTSUPP);
    if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV || attr->xrcd == nullptr ||
        attr->xrcd->context != base)
        return fail_pointer<ibv_qp>(EINVAL);
    auto* qp = new (std::nothrow) Qp{};
    if (qp == nullptr) return fail_pointer<ibv_qp>(ENOMEM);
    Session& session = *Context::of(base)->session;
    abi::OpenQpRequest request;
    request.xrcd = Xrcd::of(attr->xrcd)->handle;
    request.qpn = attr->qp_num;
    request.cookie = qp->cookie = session.new_cookie();
    abi::OpenQpReply reply;
    if (const int rc = session.call(request, reply); rc != 0) {
        delete qp;
        return fail_pointer<ibv_qp>(rc);
    }
    ibv_qp_init_attr seen{};
    seen.qp_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : nullptr;
    seen.qp_type = IBV_QPT_XRC_RECV;
    introduce(*qp, session, base, seen, attr->qp_num);
    // It may have been connected by whoever created it.
    abi::QueryQpReply now;
    if (session.call(abi::QueryQpRequest{attr->qp_num}, now) == 0)
        qp->base()->state = static_cast<ibv_qp_state>(now.attr.state);
    return qp->base();
}

}  // namespace rocemu::provider
