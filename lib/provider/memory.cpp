// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions. Registration pins nothing: the daemon keeps the range, and memory that is not
// there when it is used ends in a completion with an error. ibv_reg_mr and ibv_reg_mr_iova of the real library arrive
// at ibv_reg_mr_iova2 here.
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "base/verbs_types.h"
#include "provider/objects.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

// Is the whole range mapped? Looks at the mappings only, whatever its size; does nothing to the pages.
bool is_mapped(const void* addr, size_t length) {
    if (length == 0) return true;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<uintptr_t>(addr) & ~(page - 1);
    const auto last = reinterpret_cast<uintptr_t>(addr) + length - 1;
    if (last < first) return false;
    return msync(reinterpret_cast<void*>(first), (last - first) / page * page + page, MS_ASYNC) == 0;
}

}  // namespace
}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* base) {
    if (!ours(base)) return real().ibv_alloc_pd(base);
    Context* context = Context::of(base);
    auto* pd = new (std::nothrow) Pd{};
    if (pd == nullptr) return fail_pointer<ibv_pd>(ENOMEM);
    abi::AllocPdReply reply;
    if (const int rc = context->session->call(abi::AllocPdRequest{context->id}, reply); rc != 0) {
        delete pd;
        return fail_pointer<ibv_pd>(rc);
    }
    pd->base.context = base;
    pd->base.handle = reply.pd;
    return &pd->base;
}

ROCEMU_EXPORT int ibv_dealloc_pd(ibv_pd* base) {
    if (!ours(base->context)) return real().ibv_dealloc_pd(base);
    Pd* pd = Pd::of(base);
    const int rc = pd->context().session->undo(abi::DeallocPdRequest{base->handle});
    if (rc == 0) delete pd;
    return rc;
}

ROCEMU_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* base, void* addr, size_t length, uint64_t iova, unsigned access) {
    if (!ours(base->context)) return real().ibv_reg_mr_iova2(base, addr, length, iova, access);
    Session* session = Pd::of(base)->context().session;
    // As the kernel: what peers may change, the owner must be allowed to change.
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
        return fail_pointer<ibv_mr>(EINVAL);
    if ((access & IBV_ACCESS_ON_DEMAND) == 0 && !is_mapped(addr, length)) return fail_pointer<ibv_mr>(EFAULT);
    auto* mr = new (std::nothrow) Mr{};
    if (mr == nullptr) return fail_pointer<ibv_mr>(ENOMEM);
    abi::RegMrRequest request;
    request.pd = base->handle;
    request.access = access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);  // hints
    request.va = reinterpret_cast<uint64_t>(addr);
    request.length = length;
    request.iova = iova;
    abi::RegMrReply reply;
    if (const int rc = session->call(request, reply); rc != 0) {
        delete mr;
        return fail_pointer<ibv_mr>(rc);
    }
    mr->base.context = base->context;
    mr->base.pd = base;
    mr->base.addr = addr;
    mr->base.length = length;
    mr->base.handle = reply.key;
    mr->base.lkey = reply.key;
    mr->base.rkey = reply.key;
    session->mrs().insert(reply.key, request.va, request.iova, request.length);
    return &mr->base;
}

ROCEMU_EXPORT int ibv_dereg_mr(ibv_mr* base) {
    if (!ours(base->context)) return real().ibv_dereg_mr(base);
    Session* session = Context::of(base->context)->session;
    const int rc = session->undo(abi::DeregMrRequest{base->lkey});
    if (rc == 0) session->mrs().remove(base->lkey);
    if (rc == 0) delete reinterpret_cast<Mr*>(base);
    return rc;
}

// ibv_rereg_mr(3): IBV_REREG_MR_ERR_INPUT means that the old registration is still valid.
ROCEMU_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
    if (!ours(mr->context)) return real().ibv_rereg_mr(mr, flags, pd, addr, length, access);
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

ROCEMU_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                        int access) {
    if (!ours(pd->context)) return real().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
    return fail_pointer<ibv_mr>(EOPNOTSUPP);
}
