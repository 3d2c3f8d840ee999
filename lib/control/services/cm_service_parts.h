// SPDX-License-Identifier: BSD-3-Clause
// What the services of the rdma_cm device share.
#pragma once

#include "control/services/services.h"

namespace rocemu::control {

// An id of the caller, or nullptr: everybody else's are not to be seen.
inline CmIdObject* cm_object(Call& call, uint32_t id) {
    const auto it = call.session->cm.objects.find(id);
    return it == call.session->cm.objects.end() || !it->second.announced ? nullptr : &it->second;
}

// For a reply after which events of a channel may be gone: its number, if the record on its socket tells of nothing now.
inline uint32_t withdrawn(Session& session, uint32_t channel) {
    const auto it = session.cm.channels.find(channel);
    return it != session.cm.channels.end() && it->second->withdraw() ? channel : 0;
}

// The device an id is bound to; nullptr: none yet.
inline Device* cm_device(Call& call, const CmIdObject& object) {
    return object.device ? call.control.devices[*object.device].get() : nullptr;
}

}  // namespace rocemu::control
