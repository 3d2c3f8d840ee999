// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions. Registration pins nothing: the daemon keeps the range, and memory that is not
// there when it is used ends in a completion with an error. ibv_reg_mr and ibv_reg_mr_iova of the real library arrive
// at ibv_reg_mr_iova2 here.
#include <cerrno>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "abi/null_region.h"
#include "base/verbs_types.h"
#include "provider/objects.h"
#include "provider/real_verbs.h"
#include "provider/region_file.h"

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

// As the kernel: what peers may change, the owner must be allowed to change.
bool access_is_sound(unsigned access) {
    return (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

uint32_t without_hints(unsigned access) { return access & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE); }

}  // namespace

Mr* register_memory(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access, bool may_convert) {
    if (!access_is_sound(access) || (access & abi::kNullRegion) != 0) return fail_pointer<Mr>(EINVAL);
    if ((access & IBV_ACCESS_ON_DEMAND) == 0 && !is_mapped(addr, length)) return fail_pointer<Mr>(EFAULT);
    auto* mr = new (std::nothrow) Mr{};
    if (mr == nullptr) return fail_pointer<Mr>(ENOMEM);
    abi::RegMrRequest request;
    request.pd = pd->handle;
    request.access = without_hints(access);
    request.va = reinterpret_cast<uint64_t>(addr);
    request.length = length;
    request.iova = iova;
    Session* session = Pd::of(pd)->context().session;
    RegionFile file(*session, addr, length, access, may_convert);
    abi::RegMrReply reply;
    if (const int rc = file.call(*session, request, reply); rc != 0) {
        delete mr;
        return fail_pointer<Mr>(rc);
    }
    mr->share_id = file.keep();
    mr->access = access;
    mr->base.context = pd->context;
    mr->base.pd = pd;
    mr->base.addr = addr;
    mr->base.length = length;
    mr->base.handle = mr->base.lkey = mr->base.rkey = reply.key;
    session->mrs().insert(reply.key, request.va, request.iova, request.length);
    if (reply.mapped != 0) session->mrs().set_mapped(reply.key, request.file.va, request.file.length);
    Guard guard(session->objects_lock);
    session->mr_handles[reply.key] = length;
    return mr;
}

// Not in the table of what can be captured: there is nothing at its addresses.
ibv_mr* alloc_null_mr(ibv_pd* pd) {
    auto* mr = new (std::nothrow) Mr{};
    if (mr == nullptr) return fail_pointer<ibv_mr>(ENOMEM);
    abi::RegMrRequest request;
    request.pd = pd->handle;
    request.access = abi::kNullRegion;
    abi::RegMrReply reply;
    Session* session = Pd::of(pd)->context().session;
    if (const int rc = session->call(request, reply); rc != 0) {
        delete mr;
        return fail_pointer<ibv_mr>(rc);
    }
    mr->base.context = pd->context;
    mr->base.pd = pd;
    mr->base.length = SIZE_MAX;
    mr->base.handle = mr->base.lkey = reply.key;
    return &mr->base;
}

// Advice that there is nothing to do about is followed; prefetching brings the pages in.
int advise_mr(ibv_pd*, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* sges, uint32_t count) {
    if ((flags & ~static_cast<uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || count == 0) return EINVAL;
    if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
        advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return EOPNOTSUPP;
    if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
    constexpr int kPopulateRead = 22, kPopulateWrite = 23;  // MADV_POPULATE_*, not in every libc's headers
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t first = sges[i].addr & ~(page - 1);
        const uint64_t bytes = (sges[i].addr + sges[i].length - first + page - 1) & ~(page - 1);
        const int how = advice == IBV_ADVISE_MR_ADVICE_PREFETCH ? kPopulateRead : kPopulateWrite;
        const int rc = madvise(reinterpret_cast<void*>(first), bytes, how);
        // EINVAL: a kernel that does not know it. Without FLUSH failures are not told.
        if (rc != 0 && errno != EINVAL && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0) return EFAULT;
    }
    return 0;
}

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
    Guard guard(context->session->objects_lock);
    context->session->pd_handles.insert(reply.pd);
    return &pd->base;
}

ROCEMU_EXPORT int ibv_dealloc_pd(ibv_pd* base) {
    if (!ours(base->context)) return real().ibv_dealloc_pd(base);
    Pd* pd = Pd::of(base);
    if (pd->parent != nullptr) return dealloc_parent_domain(pd);
    if (pd->domains.load() != 0) return EBUSY;
    Session& session = *pd->context().session;
    if (const int rc = session.undo(abi::DeallocPdRequest{base->handle}); rc != 0) return rc;
    if (session.state() != SessionState::Forgotten) {
        Guard guard(session.objects_lock);
        session.pd_handles.erase(base->handle);
    }
    delete pd;
    return 0;
}

ROCEMU_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* base, void* addr, size_t length, uint64_t iova, unsigned access) {
    if (!ours(base->context)) return real().ibv_reg_mr_iova2(base, addr, length, iova, access);
    Mr* mr = register_memory(base, addr, length, iova, access, true);
    return mr != nullptr ? &mr->base : nullptr;
}

ROCEMU_EXPORT int ibv_dereg_mr(ibv_mr* base) {
    if (!ours(base->context)) return real().ibv_dereg_mr(base);
    Session* session = Context::of(base->context)->session;
    if (const int rc = session->undo(abi::DeregMrRequest{base->lkey}); rc != 0) return rc;
    session->settle();
    if (session->state() != SessionState::Forgotten) {
        session->mrs().remove(base->lkey);
        Guard guard(session->objects_lock);
        session->mr_handles.erase(base->lkey);
    }
    auto* mr = reinterpret_cast<Mr*>(base);
    if (mr->share_id != 0 && session->state() != SessionState::Forgotten) share().remove(mr->share_id);
    if (mr->users != nullptr) --*mr->users;
    delete mr;
    return 0;
}

// ibv_rereg_mr(3). IBV_REREG_MR_ERR_INPUT: the old registration is still valid. The keys stay.
ROCEMU_EXPORT int ibv_rereg_mr(ibv_mr* base, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
    if (!ours(base->context)) return real().ibv_rereg_mr(base, flags, pd, addr, length, access);
    Mr* mr = reinterpret_cast<Mr*>(base);
    const auto wants = [flags](int bit) { return (flags & bit) != 0; };
    const auto refuse = [](int error) {
        errno = error;
        return static_cast<int>(IBV_REREG_MR_ERR_INPUT);
    };
    if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) return refuse(EINVAL);
    if (wants(IBV_REREG_MR_CHANGE_PD) && (pd == nullptr || pd->context != base->context)) return refuse(EINVAL);
    if (wants(IBV_REREG_MR_CHANGE_ACCESS) && !access_is_sound(static_cast<unsigned>(access))) return refuse(EINVAL);
    // What libibverbs itself refuses. Device memory stays what it is.
    if (wants(IBV_REREG_MR_CHANGE_TRANSLATION) && (addr == nullptr || length == 0)) return refuse(EINVAL);
    if (!wants(IBV_REREG_MR_CHANGE_ACCESS) && access != 0) return refuse(EINVAL);
    if (mr->users != nullptr) return refuse(EINVAL);
    if (wants(IBV_REREG_MR_CHANGE_TRANSLATION) && !is_mapped(addr, length)) return refuse(EFAULT);
    abi::ReregMrRequest request;
    request.key = base->lkey;
    request.mask = static_cast<uint32_t>(flags);
    if (wants(IBV_REREG_MR_CHANGE_PD)) request.pd = pd->handle;
    if (wants(IBV_REREG_MR_CHANGE_ACCESS)) request.access = without_hints(static_cast<unsigned>(access));
    if (wants(IBV_REREG_MR_CHANGE_TRANSLATION)) {
        request.va = reinterpret_cast<uint64_t>(addr);
        request.length = length;
    }
    abi::ReregMrReply reply;
    Session* session = Context::of(base->context)->session;
    const bool moves = wants(IBV_REREG_MR_CHANGE_TRANSLATION);
    const unsigned new_access = wants(IBV_REREG_MR_CHANGE_ACCESS) ? static_cast<unsigned>(access) : mr->access;
    // The address of an imported region is not known here: it means another one's.
    const bool known = moves || base->addr != nullptr;
    RegionFile file(*session, moves ? addr : base->addr, moves ? length : known ? base->length : 0, new_access, true);
    if (const int rc = file.call(*session, request, reply); rc != 0) return refuse(rc);
    session->settle();
    if (known) {
        const uint64_t before = std::exchange(mr->share_id, file.keep());
        if (before != 0 && session->state() != SessionState::Forgotten) share().remove(before);
    }
    mr->access = new_access;
    if (wants(IBV_REREG_MR_CHANGE_PD)) base->pd = pd;
    if (moves) {
        base->addr = addr;
        base->length = length;
        session->mrs().remove(base->lkey);
        session->mrs().insert(base->lkey, request.va, request.va, request.length);
        Guard guard(session->objects_lock);
        session->mr_handles[base->lkey] = length;
    }
    if (known) session->mrs().set_mapped(base->lkey, reply.mapped != 0 ? request.file.va : 0, reply.mapped != 0 ? request.file.length : 0);
    return 0;
}

ROCEMU_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                        int access) {
    if (!ours(pd->context)) return real().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
    return fail_pointer<ibv_mr>(EOPNOTSUPP);
}
