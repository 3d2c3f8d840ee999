// SPDX-License-Identifier: BSD-3-Clause
// ibv_get_async_event. Records name their object by its cookie, believed only while it lives; destroying an object
// waits until its events are acknowledged (ibv_ack_async_event of the real library counts them in the object).
#include "base/verbs_types.h"
#include "provider/cq.h"
#include "provider/event_socket.h"
#include "provider/objects.h"
#include "provider/qp.h"
#include "provider/real_verbs.h"
#include "provider/srq.h"

namespace rocemu::provider {
namespace {

// The object that a record names, or nullptr. objects_lock is held.
template <typename Object>
Object* find(const std::unordered_map<uint64_t, Object*>& objects, uint64_t cookie) {
    const auto it = objects.find(cookie);
    return it == objects.end() ? nullptr : it->second;
}

// False: the object is gone, or the record means nothing to this version. `event` nullptr: no more is asked than that.
bool fill(Session& session, const abi::AsyncEventRecord& record, ibv_async_event* event) {
    const auto type = static_cast<ibv_event_type>(record.event_type);
    if (event != nullptr) event->event_type = type;
    switch (type) {
        case IBV_EVENT_CQ_ERR: {
            Cq* cq = find(session.cqs, record.element);
            if (cq == nullptr || event == nullptr) return cq != nullptr;
            ++cq->async_delivered;
            event->element.cq = cq->base();
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
            Qp* qp = find(session.qps, record.element);
            if (qp == nullptr || event == nullptr) return qp != nullptr;
            ++qp->async_delivered;
            event->element.qp = qp->base();
            return true;
        }
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED: {
            Srq* srq = find(session.srqs, record.element);
            if (srq == nullptr || event == nullptr) return srq != nullptr;
            ++srq->async_delivered;
            event->element.srq = &srq->base;
            return true;
        }
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
        case IBV_EVENT_GID_CHANGE:
            if (event != nullptr) event->element.port_num = static_cast<int>(record.element);
            return true;
        default: return false;
    }
}

}  // namespace

void drop_dead_events(Context& context) {
    drop_dead_records<abi::AsyncEventRecord>(
        context.base()->async_fd, [&](const abi::AsyncEventRecord& r) { return fill(*context.session, r, nullptr); });
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
    if (!ours(base)) return real().ibv_get_async_event(base, event);
    Context* context = Context::of(base);
    Session& session = *context->session;  // stays, whoever closes the context meanwhile
    const auto next = next_event<abi::AsyncEventRecord>(
        base->async_fd, session.objects_lock, [&](const auto& record) { return fill(session, record, event); },
        [&](const auto& record) { return fill(session, record, nullptr); });
    if (next == NextEvent::Taken) return 0;
    if (next == NextEvent::Failed) return -1;
    // Another thread has closed the context, or the daemon is gone.
    if (session.daemon_answers() || session.state() != SessionState::Dead || context->fatal_told.exchange(true))
        return fail_minus_one(EIO);
    event->event_type = IBV_EVENT_DEVICE_FATAL;
    event->element.port_num = 1;
    return 0;
}
