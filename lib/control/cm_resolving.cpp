// SPDX-License-Identifier: BSD-3-Clause
// CmService: how ids find their neighbours. A device's table of neighbours is for all sessions, and an address that
// nobody has keeps its place for seconds: a session has a bounded number of searches under way, more ids wait for their
// turn. What is known, or searched for already, waits for no turn: many ids may ask for one address at once.
#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/control.h"

namespace rocemu::control {

void CmService::resolve(Session& session, uint32_t id) {
    CmIdObject& object = session.cm.objects.at(id);
    object.stage = CmStage::Resolving;
    if (!control_.resolver.would_search(*control_.devices[*object.device], object.remote_gid)) return ask(session, id);
    session.cm.to_resolve.emplace(object.serial, id);
    search(session);
}

void CmService::search(Session& session) {
    CmTables& cm = session.cm;
    if (cm.searching) return;
    cm.searching = true;
    while (cm.searches < kMaxSearches && !cm.to_resolve.empty()) {
        const uint32_t id = cm.to_resolve.begin()->second;
        cm.to_resolve.erase(cm.to_resolve.begin());
        ask(session, id);
    }
    cm.searching = false;
}

void CmService::ask(Session& session, uint32_t id) {
    const CmIdObject& object = session.cm.objects.at(id);
    Device& device = *control_.devices[*object.device];
    const uint32_t searches = control_.resolver.would_search(device, object.remote_gid) ? 1 : 0;
    session.cm.searches += searches;
    // The session and the id may be gone, and their numbers another's, when the answer comes.
    control_.resolver.resolve(
        device, object.remote_gid,
        [this, whose = std::weak_ptr(control_.sessions.at(session.id)), id, serial = object.serial, searches](
            int error, const wire::MacAddress&) {
            const auto alive = whose.lock();
            if (!alive) return;
            alive->cm.searches -= searches;
            resolved(*alive, id, serial, error);
            search(*alive);
        });
}

void CmService::resolved(Session& session, uint32_t id, uint64_t serial, int error) {
    CmIdObject* object = find(session.id, id, serial);
    if (object == nullptr || object->stage != CmStage::Resolving) return;
    object->stage = error == 0 ? CmStage::AddressResolved : CmStage::Bound;
    object->address_event = true;
    deliver(session, id, error == 0 ? cm_event::kAddressResolved : cm_event::kAddressError, -error);
}

}  // namespace rocemu::control
