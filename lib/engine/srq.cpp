// SPDX-License-Identifier: BSD-3-Clause
// See srq.h.
#include "engine/srq.h"

#include <array>

#include "engine/completions.h"
#include "engine/qp_record.h"
#include "engine/rq_reader.h"

namespace rocemu::engine {

void SrqRecord::check_limit(Completions& completions) {
    if (limit == 0 || broken) return;
    const uint32_t waiting = reader.available();
    if (waiting == QueueReader::kBroken || waiting >= limit) return;
    // IBTA 10.2.9.1: raised once, then it must be armed again.
    limit = 0;
    completions.raise(*this, AsyncEvent::SrqLimitReached);
}

bool lend_receive(QpRecord& record, SrqRecord& srq, Completions& completions) {
    if (srq.broken) return false;
    const uint32_t waiting = srq.reader.available();
    if (waiting == QueueReader::kBroken) {
        srq.broken = true;
        completions.raise(srq, AsyncEvent::SrqErr);
        return false;
    }
    record.qp.set_receives_waiting(waiting);
    if (waiting == 0 || record.qp.recv_room() == 0) return false;
    post_receive(record.qp, srq.reader, srq.setup.max_sge, srq.setup.id);
    return true;
}

void settle_receive(QpRecord& record, SrqRecord& srq, Completions& completions) {
    if (record.qp.reclaim_recv()) return;
    ++srq.reader.consumer;
    srq.reader.publish();
    srq.check_limit(completions);
}

}  // namespace rocemu::engine
