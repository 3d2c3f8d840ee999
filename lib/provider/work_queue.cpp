// SPDX-License-Identifier: BSD-3-Clause
// See work_queue.h.
#include "provider/work_queue.h"

#include "provider/session.h"

namespace rocemu::provider {

bool set_up(Session& session, const abi::QueueRef& ref, uint32_t depth, uint32_t max_sge, uint32_t least_stride,
            WorkQueue& queue) {
    QueueView view;
    if (!session.regions().view(ref, ref.offset, view)) return false;
    if (depth > view.entries || (view.entries != 0 && view.stride < least_stride)) return false;
    queue.header = view.header;
    queue.slots = view.slots;
    queue.mask = view.entries - 1;
    queue.stride = view.stride;
    queue.depth = depth;
    queue.max_sge = max_sge;
    return true;
}

}  // namespace rocemu::provider
