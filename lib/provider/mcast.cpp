// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of datagram QPs. LIDs mean nothing on Ethernet: the group is its GID.
#include <cstring>

#include "provider/objects.h"
#include "provider/real_verbs.h"

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
    if (!ours(qp->context)) return real().ibv_attach_mcast(qp, gid, lid);
    abi::AttachMcastRequest request{qp->qp_num, {}};
    std::memcpy(request.gid, gid->raw, sizeof request.gid);
    abi::AttachMcastReply reply;
    return Context::of(qp->context)->session->call(request, reply);
}

ROCEMU_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
    if (!ours(qp->context)) return real().ibv_detach_mcast(qp, gid, lid);
    abi::DetachMcastRequest request{qp->qp_num, {}};
    std::memcpy(request.gid, gid->raw, sizeof request.gid);
    return Context::of(qp->context)->session->undo(request);
}
