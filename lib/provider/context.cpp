// SPDX-License-Identifier: BSD-3-Clause
// Opening and closing a device. The asynchronous event descriptor is one end of a SEQPACKET pair whose other end the
// daemon holds: pollable, and at end of file when the daemon is gone.
#include <algorithm>
#include <cstdlib>
#include <new>

#include <sys/socket.h>
#include <unistd.h>

#include "provider/objects.h"
#include "provider/process.h"
#include "provider/real_verbs.h"

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
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        error = errno;
    } else {
        error = session->call(abi::OpenContextRequest{device->index}, opened, {&pair[1], 1});
        close(pair[1]);
        if (error == 0) error = session->call(abi::QueryDeviceRequest{opened.context}, attr);
    }
    if (error != 0) {
        if (pair[0] >= 0) close(pair[0]);
        delete context;
        return fail_pointer<ibv_context>(error);
    }
    context->session = session;
    context->device = device;
    context->id = opened.context;
    context->max_inline = attr.max_inline;
    context->max_sge = attr.max_sge;
    context->max_qp_wr = attr.max_qp_wr;
    context->max_cqe = attr.max_cqe;
    fill_context_ops(*context);
    ibv_context* c = context->base();
    c->device = base;
    c->cmd_fd = -1;
    c->async_fd = pair[0];
    c->num_comp_vectors = static_cast<int>(std::max(1u, attr.shards));
    pthread_mutex_init(&c->mutex, nullptr);
    return c;
}

ROCEMU_EXPORT int ibv_close_device(ibv_context* base) {
    if (!ours(base)) return real().ibv_close_device(base);
    Context* context = Context::of(base);
    // What the application left in it ends with it, as when the kernel closes the command file.
    if (const int rc = context->session->undo(abi::CloseContextRequest{context->id}); rc != 0) return rc;
    close(base->async_fd);
    pthread_mutex_destroy(&base->mutex);
    delete context;
    return 0;
}
