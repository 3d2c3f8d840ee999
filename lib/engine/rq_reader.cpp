// SPDX-License-Identifier: BSD-3-Clause
// See rq_reader.h.
#include "engine/rq_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/qp_record.h"
#include "engine/sq_reader.h"

namespace rocemu::engine {

void post_receive(transport::Qp& qp, const QueueReader& reader, uint32_t max_sge, SrqId srq) {
    const std::byte* slot = reader.slot();
    abi::RqWqe copy;
    std::memcpy(&copy, slot, sizeof copy);
    std::array<Sge, kMaxSgesPerWqe> sges;
    transport::RecvWqe wqe;
    wqe.wr_id = copy.wr_id;
    wqe.index = reader.consumer;
    wqe.srq = srq;
    uint32_t count = 0;
    if (copy.num_sge > std::min(max_sge, kMaxSgesPerWqe)) {
        wqe.preset_error = WcStatus::LocQpOpErr;
    } else {
        count = copy.num_sge;
        std::memcpy(sges.data(), slot + sizeof copy, count * sizeof(Sge));
        for (uint32_t s = 0; s < count; ++s) wqe.length += sges[s].length;
        wqe.num_sge = static_cast<uint8_t>(count);
    }
    qp.post_recv(wqe, {sges.data(), count});
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
