// SPDX-License-Identifier: BSD-3-Clause
// Verbs whose objects the daemon does not have (yet): on real devices they go on, on ours they say EOPNOTSUPP the way
// their manual page reports errors.
#include "provider/objects.h"
#include "provider/real_verbs.h"

using namespace rocemu::provider;

ROCEMU_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
    if (!ours(pd->context)) return real().ibv_create_ah(pd, attr);
    return fail_pointer<ibv_ah>(EOPNOTSUPP);
}
ROCEMU_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
    if (!ours(ah->context)) return real().ibv_destroy_ah(ah);
    return EOPNOTSUPP;
}

ROCEMU_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
    if (!ours(qp->context)) return real().ibv_attach_mcast(qp, gid, lid);
    return EOPNOTSUPP;
}
ROCEMU_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
    if (!ours(qp->context)) return real().ibv_detach_mcast(qp, gid, lid);
    return EOPNOTSUPP;
}
