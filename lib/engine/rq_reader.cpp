// SPDX-License-Identifier: BSD-3-Clause
// See rq_reader.h.
#include "engine/rq_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/qp_record.h"
#include "engine/sq_reader.h"

namespace rocemu::engine {

bool top_up_receives(QpRecord& record) {
    const uint32_t waiting = record.rq.available();
    if (waiting == QueueReader::kBroken) return false;
    const uint32_t n = std::min(waiting, record.qp.recv_room());
    const uint32_t most = std::min(record.setup.config.caps.max_recv_sge, kMaxSgesPerWqe);
    std::array<Sge, kMaxSgesPerWqe> sges;
    for (uint32_t i = 0; i < n; ++i) {
        const std::byte* slot = record.rq.slot();
        abi::RqWqe copy;
        std::memcpy(&copy, slot, sizeof copy);
        transport::RecvWqe wqe;
        wqe.wr_id = copy.wr_id;
        wqe.index = record.rq.consumer;
        uint32_t count = 0;
        if (copy.num_sge > most) {
            wqe.preset_error = WcStatus::LocQpOpErr;
        } else {
            count = copy.num_sge;
            std::memcpy(sges.data(), slot + sizeof copy, count * sizeof(Sge));
            for (uint32_t s = 0; s < count; ++s) wqe.length += sges[s].length;
            wqe.num_sge = static_cast<uint8_t>(count);
        }
        record.qp.post_recv(wqe, {sges.data(), count});
        ++record.rq.consumer;
    }
    if (n != 0) record.rq.publish();
    record.qp.set_receives_waiting(waiting - n);
    return true;
}

bool top_up_if_low(QpRecord& record) {
    return record.qp.recv_room() * 2 < record.setup.config.recv_window_wqes || top_up_receives(record);
}

}  // namespace rocemu::engine
