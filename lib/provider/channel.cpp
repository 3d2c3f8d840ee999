// SPDX-License-Identifier: BSD-3-Clause
// Completion channels: one end of a SEQPACKET pair, whose other end the daemon writes 8-byte records to (the CQ's
// cookie). At end of file another thread has destroyed the channel, or the daemon is gone: what its death completes is
// reported instead, then EIO.
#include <new>

#include <sys/socket.h>
#include <unistd.h>

#include "provider/cq.h"
#include "provider/event_socket.h"
#include "provider/objects.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

// The CQ that a record names, if it lives and is the channel's. objects_lock is held: it cannot leave in between.
Cq* find(const Session& session, uint64_t cookie, const ibv_comp_channel* channel) {
    const auto it = session.cqs.find(cookie);
    return it == session.cqs.end() || it->second->base()->channel != channel ? nullptr : it->second;
}

// The daemon is dead: an armed CQ with something to poll, or nullptr.
Cq* flushed_cq(Session& session, const ibv_comp_channel* channel) {
    Guard guard(session.objects_lock);
    for (const auto& [cookie, cq] : session.cqs) {
        if (cq->base()->channel != channel || !cq->armed.load() || !cq->has_work_after_death()) continue;
        cq->armed = false;
        ++cq->comp_delivered;
        return cq;
    }
    return nullptr;
}

}  // namespace

void drop_dead_events(Channel& channel) {
    const Session& session = *channel.context().session;
    drop_dead_records<uint64_t>(channel.base.fd,
                                [&](uint64_t cookie) { return find(session, cookie, &channel.base) != nullptr; });
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* base) {
    if (!ours(base)) return real().ibv_create_comp_channel(base);
    Context* context = Context::of(base);
    auto* channel = new (std::nothrow) Channel{};
    if (channel == nullptr) return fail_pointer<ibv_comp_channel>(ENOMEM);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        const int error = errno;
        delete channel;
        return fail_pointer<ibv_comp_channel>(error);
    }
    abi::CreateChannelReply reply;
    const int rc = context->session->call(abi::CreateChannelRequest{context->id}, reply, {&pair[1], 1});
    close(pair[1]);
    if (rc != 0) {
        close(pair[0]);
        delete channel;
        return fail_pointer<ibv_comp_channel>(rc);
    }
    channel->base.context = base;
    channel->base.fd = pair[0];
    channel->id = reply.channel;
    return &channel->base;
}

ROCEMU_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* base) {
    if (!ours(base->context)) return real().ibv_destroy_comp_channel(base);
    Channel* channel = Channel::of(base);
    pthread_mutex_lock(&base->context->mutex);
    const bool busy = base->refcnt != 0;
    pthread_mutex_unlock(&base->context->mutex);
    if (busy) return EBUSY;
    if (const int rc = channel->context().session->undo(abi::DestroyChannelRequest{channel->id}); rc != 0) return rc;
    close(base->fd);
    delete channel;
    return 0;
}

ROCEMU_EXPORT int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq_out, void** cq_context) {
    if (!ours(base->context)) return real().ibv_get_cq_event(base, cq_out, cq_context);
    Session& session = *Context::of(base->context)->session;
    Cq* cq = nullptr;
    const auto next = next_event<uint64_t>(
        base->fd, session.objects_lock,
        [&](uint64_t cookie) {
            cq = find(session, cookie, base);
            if (cq != nullptr) ++cq->comp_delivered;
            return cq != nullptr;
        },
        [&](uint64_t cookie) { return find(session, cookie, base) != nullptr; });
    if (next == NextEvent::Failed) return -1;  // EAGAIN, EINTR, ...: the application's affair
    if (next == NextEvent::End) {
        if (!session.daemon_answers() && session.state() == SessionState::Dead) cq = flushed_cq(session, base);
        if (cq == nullptr) return fail_minus_one(EIO);  // as the kernel when a device is removed
    }
    *cq_out = cq->base();
    *cq_context = cq->base()->cq_context;
    return 0;
}
