// SPDX-License-Identifier: BSD-3-Clause
// Thread domains and parent domains (ibv_alloc_td(3), ibv_alloc_parent_domain(3)). A parent domain is the PD it was made
// from under another pointer. A thread domain promises that one thread uses its objects: nothing is made of it, our locks
// cost a thread that is alone next to nothing. Allocators are not called: queues lie in memory shared with the daemon.
#include <new>

#include "provider/objects.h"

namespace rocemu::provider {
namespace {

struct Td {
    ibv_td base;
    std::byte foreign_pad[kForeignPad];
    std::atomic<uint32_t> domains;

    static Td* of(ibv_td* td) { return reinterpret_cast<Td*>(td); }
};

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
    if (attr->comp_mask != 0) return fail_pointer<ibv_td>(EINVAL);
    auto* td = new (std::nothrow) Td{};
    if (td == nullptr) return fail_pointer<ibv_td>(ENOMEM);
    td->base.context = context;
    return &td->base;
}

int dealloc_td(ibv_td* base) {
    Td* td = Td::of(base);
    if (td->domains.load() != 0) return EBUSY;
    delete td;
    return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
    constexpr uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr->pd == nullptr || attr->pd->context != context || (attr->comp_mask & ~kKnown) != 0 ||
        (attr->td != nullptr && attr->td->context != context))
        return fail_pointer<ibv_pd>(EINVAL);
    // Both functions or none.
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0 &&
        (attr->alloc == nullptr) != (attr->free == nullptr))
        return fail_pointer<ibv_pd>(EINVAL);
    auto* domain = new (std::nothrow) Pd{};
    if (domain == nullptr) return fail_pointer<ibv_pd>(ENOMEM);
    domain->base.context = context;
    domain->base.handle = attr->pd->handle;
    domain->parent = Pd::of(attr->pd);
    ++domain->parent->domains;
    if (attr->td != nullptr) {
        domain->td_users = &Td::of(attr->td)->domains;
        ++*domain->td_users;
    }
    return &domain->base;
}

int dealloc_parent_domain(Pd* domain) {
    --domain->parent->domains;
    if (domain->td_users != nullptr) --*domain->td_users;
    delete domain;
    return 0;
}

}  // namespace rocemu::provider
