// SPDX-License-Identifier: BSD-3-Clause
// See rq_reader.h.
#include "engine/rq_reader.h"

#include <algorithm>
#include <cstring>

#include "engine/qp_record.h"
#include "engine/sq_reader.h"

namespace rocemu::engine {

void post_receive(transport::Qp& qp, const QueueReader& reader, uint32_t max_sge, SrqId srq) {
    const std::byte* slot = reader.slot();
    abi::RqWqe copy;
    std::memcpy(&copy, slot, sizeof copy);
    const auto [wqe, sges] = qp.post_recv();
    wqe.wr_id = copy.wr_id;
    wqe.index = reader.consumer;
    wqe.srq = srq;
    if (copy.num_sge > std::min(max_sge, kMaxSgesPerWqe)) {
        wqe.preset_error = WcStatus::LocQpOpErr;
        return;
    }
    const size_t held = std::min<size_t>(copy.num_sge, sges.size());
    for (size_t s = 0; s < copy.num_sge; ++s) {
        Sge sge;
        std::memcpy(&sge, slot + sizeof copy + s * sizeof sge, sizeof sge);
        wqe.length += sge.length;
        if (s < held) sges[s] = sge;
    }
    wqe.num_sge = static_cast<uint8_t>(held);
}

bool top_up_receives(QpRecord& record) {
    // Until the program has emptied its queues too (abi/queues.h) they hold WQEs of the life before.
    if (record.qp.state() == QpState::Reset) return true;
    const uint32_t waiting = record.rq.available();
    if (waiting == QueueReader::kBroken) return false;
    const uint32_t n = std::min(waiting, record.qp.recv_room());
    for (uint32_t i = 0; i < n; ++i) {
        post_receive(record.qp, record.rq, record.setup.config.caps.max_recv_sge);
        ++record.rq.consumer;
    }
    if (n != 0) record.rq.publish();
    record.qp.set_receives_waiting(waiting - n);
    return true;
}

bool top_up_if_low(QpRecord& record) {
    return record.qp.recv_free() * 2 >= record.setup.config.recv_window_wqes || top_up_receives(record);
}

}  // namespace rocemu::engine
