// SPDX-License-Identifier: BSD-3-Clause
// See sq_reader.h. Read abi/queues.h for the layout.
#include "engine/sq_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/qp_record.h"
#include "transport/request_opcode.h"

namespace rocemu::engine {

namespace {

// Data flows out of the SGEs, so it may stand in the WQE instead (IBTA 11.4.1.1, inline is for SEND and WRITE).
bool may_be_inline(WrOpcode opcode) {
    return opcode == WrOpcode::RdmaWrite || opcode == WrOpcode::RdmaWriteWithImm || opcode == WrOpcode::Send ||
           opcode == WrOpcode::SendWithImm;
}

}  // namespace

uint32_t decode_send(const abi::SqWqe& wqe, const std::byte* slot, uint32_t index, const transport::QpCaps& caps,
                     transport::SendWqe& out, std::span<Sge, kMaxSgesPerWqe> sges) {
    static_assert(sizeof(Sge) == sizeof(abi::WqeSge));
    out = {};
    out.wr_id = wqe.wr_id;
    out.index = index;
    out.flags = wqe.flags;
    if (!transport::request_supported(static_cast<WrOpcode>(wqe.opcode))) {
        out.preset_error = WcStatus::LocQpOpErr;
        return 0;
    }
    out.opcode = static_cast<WrOpcode>(wqe.opcode);
    out.imm_data = wqe.imm_data;
    out.remote_addr = wqe.remote_addr;
    out.rkey = wqe.rkey;
    out.compare_add = wqe.compare_add;
    out.swap = wqe.swap;
    if (wqe.payload_kind == static_cast<uint8_t>(abi::PayloadKind::Inline)) {
        if (!may_be_inline(out.opcode)) {
            out.preset_error = WcStatus::LocQpOpErr;
        } else if (wqe.length > caps.max_inline_data) {
            out.preset_error = WcStatus::LocLenErr;
        } else {
            out.length = wqe.length;
            out.mapped = slot + sizeof(abi::SqWqe);
        }
        return 0;
    }
    const uint32_t most = std::min(caps.max_send_sge, kMaxSgesPerWqe);
    if (wqe.payload_kind != static_cast<uint8_t>(abi::PayloadKind::Sges) || wqe.num_sge > most) {
        out.preset_error = WcStatus::LocQpOpErr;
        return 0;
    }
    std::memcpy(sges.data(), slot + sizeof(abi::SqWqe), wqe.num_sge * sizeof(Sge));
    uint64_t total = 0;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) total += sges[i].length;
    // IBTA C9-6: a message has at most 2^31 bytes.
    if (total > kMaxMessageBytes) {
        out.preset_error = WcStatus::LocLenErr;
        return 0;
    }
    out.num_sge = wqe.num_sge;
    out.length = static_cast<uint32_t>(total);
    return wqe.num_sge;
}

FetchResult fetch_sends(QpRecord& record, uint32_t limit, Instant now) {
    FetchResult result;
    const uint32_t waiting = record.sq.available();
    if (waiting == QueueReader::kBroken) {
        result.broken = true;
        return result;
    }
    const uint32_t n = std::min({waiting, limit, record.qp.send_room()});
    std::array<Sge, kMaxSgesPerWqe> sges;
    for (uint32_t i = 0; i < n; ++i) {
        const std::byte* slot = record.sq.slot();
        abi::SqWqe copy;
        std::memcpy(&copy, slot, sizeof copy);
        transport::SendWqe wqe;
        const uint32_t count = decode_send(copy, slot, record.sq.consumer, record.setup.config.caps, wqe, sges);
        record.qp.post_send(wqe, {sges.data(), count}, now);
        ++record.sq.consumer;
    }
    if (n != 0) record.sq.publish();
    result.fetched = n;
    result.more = n < waiting;
    return result;
}

}  // namespace rocemu::engine
