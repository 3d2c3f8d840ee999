// SPDX-License-Identifier: BSD-3-Clause
// See sq_reader.h. Read abi/queues.h for the layout.
#include "engine/sq_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "abi/stage.h"
#include "engine/qp_record.h"
#include "transport/request_opcode.h"

namespace rocemu::engine {

namespace {

// Slots that are asked for in front of the one that is read: each comes from the cache of the program's processor.
constexpr uint32_t kSlotsAhead = 4;

// How long a program is waited for that should come back and capture, from the moment when room for it got free.
constexpr Duration kPatience = 100 * kMicrosecond;
// WQEs that are gathered at once when it did not come: twice as many each time, half as many when it came. So a program
// that polls is captured all the time, and one that does not (or is not let) costs next to no waiting.
constexpr uint32_t kFirstPull = 4, kMostPull = 256;

// Where the bytes of a staged WQE lie; false: not where they may. The contents may change at any time: they are summed
// as they are copied into the frame.
bool locate(const abi::SqWqe& wqe, const std::byte* slot, const SqLimits& limits, transport::SendWqe& out) {
    const uint64_t place = wqe.stage_ref & abi::kStageOffset;
    if (wqe.stage_ref & abi::kStageInSlot) {
        const size_t at = sizeof(abi::SqWqe) + wqe.num_sge * sizeof(Sge);
        if (at > limits.stride || out.length > limits.stride - at) return false;
        out.mapped = slot + at;
        return true;
    }
    if (limits.stage == nullptr || place > abi::kStageBytes || out.length > abi::kStageBytes - place) return false;
    out.mapped = limits.stage + place;
    return true;
}

// Should this WQE be left in the queue until the provider has captured its payload? Only a program that is about to come
// back is waited for, and not for long.
bool waits_for_capture(QpRecord& record, Instant now) {
    CaptureWait& wait = record.capture;
    if (wait.pull != 0) {
        --wait.pull;
        return false;
    }
    const QpState state = record.qp.state();
    const bool sleeps = record.send_cq->setup().header->armed.load(std::memory_order_relaxed) != abi::kDisarmed;
    if (sleeps || (state != QpState::Rts && state != QpState::Sqd)) return false;
    if (wait.due == kNever || wait.retired != record.retired) {
        wait.retired = record.retired;
        wait.due = now + kPatience;
    }
    if (now < wait.due) return true;
    wait.step = std::clamp(wait.step * 2, kFirstPull, kMostPull);
    wait.pull = wait.step - 1;
    return false;
}

// IBTA 10.2.2.2: address handle and QP are of one protection domain.
bool may_use(const QpRecord& record, uint32_t ah) {
    const AddressRecord* address = record.session->addresses.find(ah);
    return address != nullptr && address->pd == record.setup.config.pd && address->device == record.setup.device;
}

}  // namespace

void decode_send(const abi::SqWqe& wqe, const std::byte* slot, uint32_t index, const SqLimits& limits,
                 transport::SendSlot into) {
    transport::SendWqe& out = into.wqe;
    const transport::QpCaps& caps = limits.caps;
    static_assert(sizeof(Sge) == sizeof(abi::WqeSge));
    out.wr_id = wqe.wr_id;
    out.index = index;
    out.flags = wqe.flags;
    if (!transport::request_supported(limits.type, static_cast<WrOpcode>(wqe.opcode))) {
        out.preset_error = WcStatus::LocQpOpErr;
        return;
    }
    out.opcode = static_cast<WrOpcode>(wqe.opcode);
    out.imm_data = wqe.imm_data;
    out.remote_addr = wqe.remote_addr;
    out.rkey = wqe.rkey;
    out.compare_add = wqe.compare_add;
    out.swap = wqe.swap;
    if (limits.type == QpType::Ud) {
        out.dest_qpn = static_cast<uint32_t>(wqe.remote_addr) & 0xffffff;
        out.ah = static_cast<uint32_t>(wqe.remote_addr >> 32);
    }
    out.srqn = wqe.remote_srqn & 0xffffff;
    if (wqe.payload_kind == static_cast<uint8_t>(abi::PayloadKind::Inline)) {
        if (!transport::may_be_inline(limits.type, out.opcode)) {
            out.preset_error = WcStatus::LocQpOpErr;
        } else if (wqe.length > caps.max_inline_data) {
            out.preset_error = WcStatus::LocLenErr;
        } else {
            out.length = wqe.length;
            out.mapped = slot + sizeof(abi::SqWqe);
        }
        return;
    }
    const auto most = static_cast<uint32_t>(std::min<size_t>(caps.max_send_sge, into.sges.size()));
    const bool staged = wqe.payload_kind == static_cast<uint8_t>(abi::PayloadKind::Staged);
    if ((!staged && wqe.payload_kind != static_cast<uint8_t>(abi::PayloadKind::Sges)) || wqe.num_sge > most) {
        out.preset_error = WcStatus::LocQpOpErr;
        return;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < wqe.num_sge; ++i) {
        std::memcpy(&into.sges[i], slot + sizeof(abi::SqWqe) + i * sizeof(Sge), sizeof(Sge));
        total += into.sges[i].length;
    }
    // IBTA C9-6: a message has at most 2^31 bytes.
    if (total > kMaxMessageBytes) {
        out.preset_error = WcStatus::LocLenErr;
        return;
    }
    out.num_sge = wqe.num_sge;
    out.length = static_cast<uint32_t>(total);
    if (staged && total != 0 && (wqe.stage_ref & abi::kStageReady) &&
        (!transport::may_be_inline(limits.type, out.opcode) || !locate(wqe, slot, limits, out))) {
        out.preset_error = WcStatus::LocQpOpErr;
        out.num_sge = 0;
    }
}

FetchResult fetch_sends(QpRecord& record, uint32_t limit, Instant now) {
    FetchResult result;
    const uint32_t waiting = record.sq.available();
    if (waiting == QueueReader::kBroken) {
        record.capture.due = kNever;
        result.broken = true;
        return result;
    }
    bool waits = false;
    const uint32_t n = std::min({waiting, limit, record.qp.send_room()});
    const SqLimits limits{record.setup.config.type, record.setup.config.caps, record.sq.view.stride, record.session->setup.stage};
    for (uint32_t i = 0; i < std::min(n, kSlotsAhead); ++i) record.sq.prefetch_slot(i);
    uint32_t& fetched = result.fetched;
    for (; fetched < n; ++fetched) {
        if (fetched + kSlotsAhead < n) record.sq.prefetch_slot(kSlotsAhead);
        std::byte* slot = record.sq.slot();
        abi::SqWqe copy;
        std::memcpy(&copy, slot, sizeof copy);
        if (copy.payload_kind == static_cast<uint8_t>(abi::PayloadKind::Staged)) {
            // Acquire: what was captured is there (partner: the provider's release store).
            copy.stage_ref = std::atomic_ref(reinterpret_cast<abi::SqWqe*>(slot)->stage_ref).load(std::memory_order_acquire);
            if (!(copy.stage_ref & abi::kStageReady)) {
                waits = waits_for_capture(record, now);
                if (waits) break;
                record.device->counters.add(stats::Counter::payload_capture_missed);
            } else if (record.capture.due != kNever) {
                record.capture.step /= 2;
            }
            record.capture.due = kNever;
        }
        const transport::SendSlot into = record.qp.post_send();
        decode_send(copy, slot, record.sq.consumer, limits, into);
        if (record.type() == QpType::Ud && into.wqe.preset_error == WcStatus::Success && !may_use(record, into.wqe.ah))
            into.wqe.preset_error = WcStatus::LocQpOpErr;
        ++record.sq.consumer;
    }
    // The program may have changed what was waited for, or taken it back.
    if (!waits) record.capture.due = kNever;
    if (fetched != 0) record.sq.publish();
    result.more = fetched < waiting && record.capture.due == kNever;
    return result;
}

}  // namespace rocemu::engine
