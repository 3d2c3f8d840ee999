// SPDX-License-Identifier: BSD-3-Clause
// PDs, MRs and DMs of a context under a second pointer (ibv_import_pd(3)). Objects belong to a session and a session to a
// process, so they are imported within the process that made them; a handle that is none of its objects is EINVAL.
#include <new>

#include "provider/objects.h"
#include "provider/real_verbs.h"

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_pd* ibv_import_pd(ibv_context* base, uint32_t handle) {
    if (!ours(base)) return real().ibv_import_pd(base, handle);
    Session& session = *Context::of(base)->session;
    Guard guard(session.objects_lock);
    if (!session.pd_handles.contains(handle)) return fail_pointer<ibv_pd>(EINVAL);
    auto* pd = new (std::nothrow) Pd{};
    if (pd == nullptr) return fail_pointer<ibv_pd>(ENOMEM);
    pd->base.context = base;
    pd->base.handle = handle;
    return &pd->base;
}

ROCEMU_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
    if (!ours(pd->context)) return real().ibv_unimport_pd(pd);
    delete Pd::of(pd);
}

ROCEMU_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
    if (!ours(pd->context)) return real().ibv_import_mr(pd, handle);
    Session& session = *Pd::of(pd)->context().session;
    Guard guard(session.objects_lock);
    const auto found = session.mr_handles.find(handle);
    if (found == session.mr_handles.end()) return fail_pointer<ibv_mr>(EINVAL);
    auto* mr = new (std::nothrow) Mr{};
    if (mr == nullptr) return fail_pointer<ibv_mr>(ENOMEM);
    mr->base.context = pd->context;
    mr->base.pd = pd;
    mr->base.length = found->second;
    mr->base.handle = mr->base.lkey = mr->base.rkey = handle;
    return &mr->base;
}

ROCEMU_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
    if (!ours(mr->context)) return real().ibv_unimport_mr(mr);
    delete reinterpret_cast<Mr*>(mr);
}

ROCEMU_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
    if (!ours(context)) return real().ibv_import_dm(context, handle);
    return import_dm(context, handle);
}

ROCEMU_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
    if (!ours(dm->context)) return real().ibv_unimport_dm(dm);
    unimport_dm(dm);
}
