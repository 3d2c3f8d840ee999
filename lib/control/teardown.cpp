// SPDX-License-Identifier: BSD-3-Clause
// Teardown: see teardown.h. The tables are emptied by the same functions that serve the programs' own destroy calls.
#include "control/teardown.h"

#include <vector>

#include "control/captures.h"
#include "control/cm_service.h"
#include "control/log.h"
#include "control/services/cq_service.h"
#include "control/services/flow_service.h"
#include "control/services/mr_service.h"
#include "control/services/qp_service.h"
#include "control/services/srq_service.h"
#include "control/services/xrc_service.h"

namespace rocemu::control {
namespace {

template <typename Map>
std::vector<uint32_t> members(const Map& map, uint32_t context) {
    std::vector<uint32_t> list;
    for (const auto& [id, object] : map)
        if (object.context == context) list.push_back(id);
    return list;
}

void destroy_rest(Control& control, Session& session, uint32_t context) {
    close_domains(control, session, context);
    for (const uint32_t id : members(session.channels, context)) {
        session.channels.erase(id);
        session.channel_ids.give_back(id);
    }
    // The shards forget them together with the session, or when the number is given out again.
    for (const uint32_t id : members(session.ahs, context)) {
        session.ahs.erase(id);
        session.ah_ids.give_back(id);
    }
    for (const uint32_t id : members(session.pds, context)) {
        session.pds.erase(id);
        control.pd_ids.give_back(id);
    }
    session.contexts.erase(context);
    session.context_ids.give_back(context);
}

void leave_shards(Control& control, const std::shared_ptr<Session>& session) {
    const auto gone = [&control, session] {
        control.sessions.erase(session->id);
        control.session_ids.give_back(session->id);
        log::debug("{}: nothing of it is left", session->name());
    };
    if (!session->page) return gone();
    control.shards.submit_all([id = session->id](engine::Shard& shard, uint32_t) { return shard.remove_session(id); },
                              gone);
}

}  // namespace

void destroy_context(Control& control, const std::shared_ptr<Session>& session, uint32_t context,
                     std::function<void()> done) {
    session->closing_begins();
    for (const uint32_t id : members(session->flows, context)) remove_flow(control, session, id, [] {});
    for (const uint32_t qpn : members(session->rss_qps, context)) remove_rss_qp(control, *session, qpn);
    for (const uint32_t qpn : members(session->qps, context)) remove_qp(control, session, qpn, [] {});
    close_targets(control, session, context);
    session->when_idle([&control, session, context, done = std::move(done)] {
        for (const uint32_t id : members(session->srqs, context)) remove_srq(control, session, id, [] {});
        for (const uint32_t id : members(session->cqs, context)) remove_cq(control, session, id, [] {});
        for (const uint32_t key : members(session->mws, context)) remove_mw(control, session, key, [] {});
        for (const uint32_t key : members(session->mrs, context)) remove_mr(control, session, key, [] {});
        session->when_idle([&control, session, context, done] {
            if (session->contexts.contains(context)) destroy_rest(control, *session, context);
            session->closing_ends();
            done();
        });
    });
}

void end_session(Control& control, const std::shared_ptr<Session>& session) {
    if (session->ending) return;
    session->ending = true;
    session->close();
    control.cm->forget(*session);
    if (session->admin) control.captures->end_of(*session);
    if (session->greeted && !session->admin) log::info("{}: detached", session->name());
    // The caller may be a method of the session itself.
    control.loop.defer([&control, session] {
        // First: a QP is not gone before its payload jobs are, and nobody does those any more.
        if (session->page)
            control.call_all(
                session,
                [id = session->id](engine::Shard& shard, uint32_t) {
                    shard.abandon_payload(id);
                    return true;
                },
                [] {});
        auto left = std::make_shared<size_t>(session->contexts.size());
        if (*left == 0) return session->when_idle([&control, session] { leave_shards(control, session); });
        std::vector<uint32_t> contexts;
        for (const auto& [id, context] : session->contexts) contexts.push_back(id);
        for (const uint32_t id : contexts)
            destroy_context(control, session, id, [&control, session, left] {
                if (--*left == 0) session->when_idle([&control, session] { leave_shards(control, session); });
            });
    });
}

}  // namespace rocemu::control
