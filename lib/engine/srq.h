// SPDX-License-Identifier: BSD-3-Clause
// SrqRecord: a shared receive queue. All its QPs live on one shard, so a WQE is lent to the QP whose packet may need
// it, and counts as consumed when the core has taken it: none ever waits in a QP that does not need it. Read IBTA
// volume 1, 10.2.9 (shared receive queues, the limit event), annex A14 (XRC: the packet names the queue, and receives
// complete to the queue's own CQ).
#pragma once

#include <cstdint>

#include "engine/queue_reader.h"

namespace rocemu::engine {

class Completions;
class CqRing;
struct QpRecord;

struct SrqRecord {
    explicit SrqRecord(const SrqSetup& s) : setup(s) { reader.view = s.queue; }

    SrqSetup setup;
    QueueReader reader;
    CqRing* cq = nullptr;  // XRC only
    uint32_t limit = 0;   // 0: not armed
    bool broken = false;  // its producer index was impossible: nothing is taken from it any more

    // Fewer WQEs than the limit: tells so, once.
    void check_limit(Completions& completions);
};

// Before a packet that may take a receive: offers the oldest WQE to the core, if there is one. True if it did.
bool lend_receive(QpRecord& record, SrqRecord& srq, Completions& completions);
// Behind that packet.
void settle_receive(QpRecord& record, SrqRecord& srq, Completions& completions);

}  // namespace rocemu::engine
