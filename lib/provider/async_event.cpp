// SPDX-License-Identifier: BSD-3-Clause
// ibv_get_async_event. Records name their object by its address, believed only while it lives; destroying an object
// waits until its events are acknowledged (ibv_ack_async_event of the real library counts them in the object).
#include <sys/socket.h>

#include "base/verbs_types.h"
#include "provider/cq.h"
#include "provider/objects.h"
#include "provider/qp.h"
#include "provider/real_verbs.h"
#include "provider/srq.h"

namespace rocemu::provider {
namespace {

// False: the object is gone, or the record means nothing to this version.
bool fill(Session& session, const abi::AsyncEventRecord& record, ibv_async_event& event) {
    event.event_type = static_cast<ibv_event_type>(record.event_type);
    Guard guard(session.objects_lock);
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR: {
            auto* cq = reinterpret_cast<Cq*>(record.element);
            if (!session.cqs.contains(cq)) return false;
            ++cq->async_delivered;
            event.element.cq = cq->base();
            return true;
        }
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED: {
            auto* qp = reinterpret_cast<Qp*>(record.element);
            if (!session.qps.contains(qp)) return false;
            ++qp->async_delivered;
            event.element.qp = qp->base();
            return true;
        }
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED: {
            auto* srq = reinterpret_cast<Srq*>(record.element);
            if (!session.srqs.contains(srq)) return false;
            ++srq->async_delivered;
            event.element.srq = &srq->base;
            return true;
        }
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
        case IBV_EVENT_GID_CHANGE: event.element.port_num = static_cast<int>(record.element); return true;
        default: return false;
    }
}

}  // namespace
}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
    if (!ours(base)) return real().ibv_get_async_event(base, event);
    Context* context = Context::of(base);
    Session& session = *context->session;  // stays, whoever closes the context meanwhile
    for (;;) {
        abi::AsyncEventRecord record;
        const ssize_t n = recv(base->async_fd, &record, sizeof record, 0);
        if (n < 0 && errno != ECONNRESET) return -1;
        if (n == sizeof record) {
            if (fill(session, record, *event)) return 0;
            continue;
        }
        // Another thread has closed the context, or the daemon is gone.
        if (session.daemon_answers() || session.state() != SessionState::Dead || context->fatal_told.exchange(true))
            return fail_minus_one(EIO);
        event->event_type = IBV_EVENT_DEVICE_FATAL;
        event->element.port_num = 1;
        return 0;
    }
}
