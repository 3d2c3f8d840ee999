// SPDX-License-Identifier: BSD-3-Clause
// Opening, importing and closing a device. The asynchronous event descriptor is one end of a SEQPACKET pair whose other
// end the daemon holds: pollable, and at end of file when the daemon is gone. The command descriptor is an empty file by
// which ibv_import_device(3) knows a context of this process again.
#include <algorithm>
#include <cstdlib>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "provider/objects.h"
#include "provider/process.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

Mutex contexts_lock;
Context* contexts = nullptr;  // all that are open

bool same_file(int a, int b) {
    struct stat x{}, y{};
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void finish(Context& context, ibv_device* device, int cmd_fd, int async_fd, int vectors) {
    fill_context_ops(context);
    ibv_context* c = context.base();
    c->device = device;
    c->cmd_fd = cmd_fd;
    c->async_fd = async_fd;
    c->num_comp_vectors = vectors;
    pthread_mutex_init(&c->mutex, nullptr);
    Guard guard(contexts_lock);
    context.next = contexts;
    contexts = &context;
}

// True if no other context leads to the same one of the daemon.
bool leave(Context& context) {
    Guard guard(contexts_lock);
    for (Context** at = &contexts; *at != nullptr; at = &(*at)->next)
        if (*at == &context) {
            *at = context.next;
            break;
        }
    for (Context* c = contexts; c != nullptr; c = c->next)
        if (c->session == context.session && c->id == context.id) return false;
    return true;
}

}  // namespace

void forget_contexts() {
    contexts_lock.forget();
}

ibv_context* import_context(int cmd_fd) {
    auto* context = new (std::nothrow) Context{};
    if (context == nullptr) return fail_pointer<ibv_context>(ENOMEM);
    ibv_device* device = nullptr;
    int async_fd = -1, vectors = 0;
    {
        Guard guard(contexts_lock);
        Context* origin = contexts;
        while (origin != nullptr && !same_file(cmd_fd, origin->base()->cmd_fd)) origin = origin->next;
        if (origin != nullptr && origin->session->alive()) {
            context->session = origin->session;
            context->device = origin->device;
            context->id = origin->id;
            context->attributes = origin->attributes;
            device = origin->base()->device;
            vectors = origin->base()->num_comp_vectors;
            async_fd = fcntl(origin->base()->async_fd, F_DUPFD_CLOEXEC, 0);
        }
    }
    if (async_fd < 0) {
        delete context;
        return fail_pointer<ibv_context>(device == nullptr ? ENOENT : EMFILE);
    }
    finish(*context, device, cmd_fd, async_fd, vectors);
    return context->base();
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_context* ibv_open_device(ibv_device* base) {
    if (!ours(base)) return real().ibv_open_device(base);
    auto* device = reinterpret_cast<Device*>(base);
    Session* session = current_session();
    if (session == nullptr || !device->listed) return fail_pointer<ibv_context>(ENODEV);

    auto* context = new (std::nothrow) Context{};
    if (context == nullptr) return fail_pointer<ibv_context>(ENOMEM);
    int pair[2] = {-1, -1};
    int error = 0;
    abi::OpenContextReply opened;
    abi::QueryDeviceReply attr;
    const int cmd_fd = memfd_create("rocemu-context", MFD_CLOEXEC);
    if (cmd_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        error = errno;
    } else {
        error = session->call(abi::OpenContextRequest{device->index}, opened, {&pair[1], 1});
        close(pair[1]);
        if (error == 0) error = session->call(abi::QueryDeviceRequest{opened.context}, attr);
    }
    if (error != 0) {
        if (pair[0] >= 0) close(pair[0]);
        if (cmd_fd >= 0) close(cmd_fd);
        delete context;
        return fail_pointer<ibv_context>(error);
    }
    context->session = session;
    context->device = device;
    context->id = opened.context;
    context->attributes = attr;
    finish(*context, base, cmd_fd, pair[0], static_cast<int>(std::max(1u, attr.shards)));
    return context->base();
}

ROCEMU_EXPORT int ibv_close_device(ibv_context* base) {
    if (!ours(base)) return real().ibv_close_device(base);
    Context* context = Context::of(base);
    // What the application left in it ends with the last context that leads there, as when the kernel closes the command
    // file. It is not found any more whatever the daemon says.
    const int rc = leave(*context) ? context->session->undo(abi::CloseContextRequest{context->id}) : 0;
    close(base->async_fd);
    close(base->cmd_fd);
    pthread_mutex_destroy(&base->mutex);
    delete context;
    return rc;
}
