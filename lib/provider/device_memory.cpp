// SPDX-License-Identifier: BSD-3-Clause
// Device memory (ibv_alloc_dm(3)). The NIC has none of its own: what is allocated is memory of this process that is
// reached by its keys like any other, under addresses that begin at 0. Offsets and lengths of copies are multiples of 4,
// as adapters that have such memory want it.
#include <cstring>
#include <new>
#include <unordered_map>

#include <sys/mman.h>

#include "base/verbs_types.h"
#include "provider/objects.h"
#include "provider/process.h"

namespace rocemu::provider {
namespace {

constexpr uint64_t kUnit = 4;

struct Dm {
    ibv_dm base;
    std::byte foreign_pad[kForeignPad];
    std::byte* memory;
    uint64_t length;
    std::atomic<uint32_t> users;  // regions in it, and imports of it
    Dm* origin;                   // of an import

    static Dm* of(ibv_dm* dm) { return reinterpret_cast<Dm*>(dm); }
};

std::atomic<uint64_t> allocated{0};
Mutex table_lock;
std::unordered_map<uint32_t, Dm*> table;  // by handle
uint32_t next_handle = 1;

bool within(const Dm& dm, uint64_t offset, uint64_t length) {
    return offset <= dm.length && length <= dm.length - offset;
}
bool may_copy(const Dm& dm, uint64_t offset, uint64_t length) {
    return offset % kUnit == 0 && length % kUnit == 0 && within(dm, offset, length);
}

int copy_to(ibv_dm* base, uint64_t offset, const void* host, size_t length) {
    Dm& dm = *Dm::of(base);
    if (!may_copy(dm, offset, length)) return EINVAL;
    std::memcpy(dm.memory + offset, host, length);
    return 0;
}
int copy_from(void* host, ibv_dm* base, uint64_t offset, size_t length) {
    Dm& dm = *Dm::of(base);
    if (!may_copy(dm, offset, length)) return EINVAL;
    std::memcpy(host, dm.memory + offset, length);
    return 0;
}

}  // namespace

// The table may have been in the middle of a change: the child begins with an empty one, and leaves the old one alone.
void forget_device_memory() {
    table_lock.forget();
    new (&table) std::unordered_map<uint32_t, Dm*>;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
    if (attr->comp_mask != 0) return fail_pointer<ibv_dm>(EINVAL);
    if (attr->length == 0 || attr->length > kMaxDmBytes) return fail_pointer<ibv_dm>(ENOMEM);
    if (allocated.fetch_add(attr->length) + attr->length > kMaxDmBytes) {
        allocated.fetch_sub(attr->length);
        return fail_pointer<ibv_dm>(ENOMEM);
    }
    void* memory = mmap(nullptr, attr->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* dm = memory != MAP_FAILED ? new (std::nothrow) Dm{} : nullptr;
    if (dm == nullptr) {
        if (memory != MAP_FAILED) munmap(memory, attr->length);
        allocated.fetch_sub(attr->length);
        return fail_pointer<ibv_dm>(ENOMEM);
    }
    dm->base.context = context;
    dm->base.memcpy_to_dm = copy_to;
    dm->base.memcpy_from_dm = copy_from;
    dm->memory = static_cast<std::byte*>(memory);
    dm->length = attr->length;
    Guard guard(table_lock);
    dm->base.comp_mask = IBV_DM_MASK_HANDLE;
    dm->base.handle = next_handle++;
    table[dm->base.handle] = dm;
    return &dm->base;
}

ibv_dm* import_dm(ibv_context* context, uint32_t handle) {
    Guard guard(table_lock);
    const auto found = table.find(handle);
    if (found == table.end() || Context::of(found->second->base.context)->session != Context::of(context)->session)
        return fail_pointer<ibv_dm>(EINVAL);
    auto* dm = new (std::nothrow) Dm{};
    if (dm == nullptr) return fail_pointer<ibv_dm>(ENOMEM);
    dm->base = found->second->base;
    dm->base.context = context;
    dm->memory = found->second->memory;
    dm->length = found->second->length;
    dm->origin = found->second;
    ++dm->origin->users;
    return &dm->base;
}

void unimport_dm(ibv_dm* base) {
    Dm* dm = Dm::of(base);
    --dm->origin->users;
    delete dm;
}

int free_dm(ibv_dm* base) {
    Dm* dm = Dm::of(base);
    {
        Guard guard(table_lock);
        if (dm->users.load() != 0) return EBUSY;
        table.erase(base->handle);
    }
    munmap(dm->memory, dm->length);
    allocated.fetch_sub(dm->length);
    delete dm;
    return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* base, uint64_t offset, size_t length, unsigned access) {
    Dm& dm = *Dm::of(base);
    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || !within(dm, offset, length)) return fail_pointer<ibv_mr>(EINVAL);
    Mr* mr = register_memory(pd, dm.memory + offset, length, 0, access, false);
    if (mr == nullptr) return nullptr;
    mr->base.addr = nullptr;  // ibv_reg_dm_mr(3): addresses in it begin at 0
    mr->users = &dm.users;
    ++dm.users;
    return &mr->base;
}

}  // namespace rocemu::provider
