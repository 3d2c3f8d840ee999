// SPDX-License-Identifier: BSD-3-Clause
// The list of devices: ours first, then the host's real ones. Device structures live for ever in one pool, so that
// pointers from different lists are equal and an object is recognised as ours by its device's address.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <endian.h>

#include "provider/objects.h"
#include "provider/path_view.h"
#include "provider/process.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {

alignas(64) Device device_pool[kMaxDevices];

namespace {

Mutex pool_lock;
std::atomic<uint32_t> pool_used{0};

// In front of every list we return.
struct ListHeader {
    ibv_device** real;  // to be freed by the real library
    uint64_t reserved;
};

Device* device_named(const char* name) {
    const uint32_t used = pool_used;
    for (uint32_t i = 0; i < used; ++i)
        if (std::strcmp(device_pool[i].base.name, name) == 0) return &device_pool[i];
    if (used == kMaxDevices) return nullptr;
    Device& d = device_pool[used];
    d.base.node_type = IBV_NODE_CA;
    d.base.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(d.base.name, sizeof d.base.name, "%s", name);
    std::snprintf(d.base.dev_name, sizeof d.base.dev_name, "uverbs_%.50s", name);
    std::snprintf(d.base.dev_path, sizeof d.base.dev_path, "/sys/class/infiniband_verbs/uverbs_%.50s", name);
    std::snprintf(d.base.ibdev_path, sizeof d.base.ibdev_path, "/sys/class/infiniband/%.63s", name);
    pool_used = used + 1;
    return &d;
}

// Set while the real library runs on our behalf: it may list devices itself and look into them.
thread_local bool hide_ours = false;

}  // namespace

void forget_device_list() {
    pool_lock.forget();
}

void list_devices_of(Session& session) {
    Guard guard(pool_lock);
    for (Device& d : device_pool) d.listed = false;
    for (uint32_t i = 0; i < std::min(session.hello().devices, kMaxDevices); ++i) {
        abi::ListDeviceReply reply;
        if (session.call(abi::ListDeviceRequest{i}, reply) != 0) continue;
        reply.name[sizeof reply.name - 1] = '\0';
        Device* d = device_named(reply.name);
        if (d == nullptr) continue;
        d->index = reply.index;
        d->guid = reply.node_guid;
        d->listed = true;
    }
}

}  // namespace rocemu::provider

using namespace rocemu::provider;

ROCEMU_EXPORT ibv_device** ibv_get_device_list(int* num_devices) {
    if (num_devices != nullptr) *num_devices = 0;
    int real_count = 0;
    errno = 0;
    ibv_device** real_list = nullptr;
    if (real().ibv_get_device_list != nullptr) {
        const PathView::Suspend host_only;
        real_list = real().ibv_get_device_list(&real_count);
    }
    const int real_errno = real_list == nullptr ? (errno != 0 ? errno : ENOSYS) : 0;

    const bool with_ours = !hide_ours && current_session() != nullptr;
    const uint32_t used = with_ours ? pool_used.load() : 0;
    // As libibverbs: nothing to look at is an error, an empty list is not.
    if (!with_ours && real_list == nullptr) return fail_pointer<ibv_device*>(real_errno);

    auto* header = static_cast<ListHeader*>(
        std::calloc(1, sizeof(ListHeader) + sizeof(ibv_device*) * (used + static_cast<size_t>(real_count) + 1)));
    if (header == nullptr) {
        if (real_list != nullptr) real().ibv_free_device_list(real_list);
        return fail_pointer<ibv_device*>(ENOMEM);
    }
    header->real = real_list;
    auto** list = reinterpret_cast<ibv_device**>(header + 1);
    int count = 0;
    for (uint32_t i = 0; i < used; ++i)
        if (device_pool[i].listed) list[count++] = &device_pool[i].base;
    for (int i = 0; i < real_count; ++i) list[count++] = real_list[i];
    if (num_devices != nullptr) *num_devices = count;
    errno = 0;
    return list;
}

ROCEMU_EXPORT void ibv_free_device_list(ibv_device** list) {
    if (list == nullptr) return;
    ListHeader* header = reinterpret_cast<ListHeader*>(list) - 1;
    if (header->real != nullptr) real().ibv_free_device_list(header->real);
    std::free(header);
}

ROCEMU_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
    if (!ours(device)) return real().ibv_get_device_guid(device);
    return htobe64(reinterpret_cast<Device*>(device)->guid);
}

// The kernel's number of a device; there is none (ibv_get_device_index(3): -1 when it is not known).
ROCEMU_EXPORT int ibv_get_device_index(ibv_device* device) {
    if (!ours(device)) return real().ibv_get_device_index(device);
    return -1;
}

// A context of ours is known in its own process; descriptors of other processes are for the real library to judge.
ROCEMU_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
    if (ibv_context* mine = import_context(cmd_fd); mine != nullptr || errno != ENOENT) return mine;
    if (real().ibv_import_device == nullptr) return fail_pointer<ibv_context>(EOPNOTSUPP);
    hide_ours = true;
    ibv_context* context = real().ibv_import_device(cmd_fd);
    hide_ours = false;
    return context;
}
