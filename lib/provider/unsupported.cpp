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

ROCEMU_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
    if (!ours(context)) return real().ibv_import_pd(context, handle);
    return fail_pointer<ibv_pd>(EOPNOTSUPP);
}
ROCEMU_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
    if (!ours(pd->context)) real().ibv_unimport_pd(pd);
}
ROCEMU_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
    if (!ours(pd->context)) return real().ibv_import_mr(pd, handle);
    return fail_pointer<ibv_mr>(EOPNOTSUPP);
}
ROCEMU_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
    if (!ours(mr->context)) real().ibv_unimport_mr(mr);
}
ROCEMU_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
    if (!ours(context)) return real().ibv_import_dm(context, handle);
    return fail_pointer<ibv_dm>(EOPNOTSUPP);
}
ROCEMU_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
    if (!ours(dm->context)) real().ibv_unimport_dm(dm);
}
