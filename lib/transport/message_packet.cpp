// SPDX-License-Identifier: BSD-3-Clause
// See message_packet.h.
#include "transport/message_packet.h"

#include <algorithm>
#include <array>
#include <span>

#include "transport/request_opcode.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

namespace {

// IBTA 10.2.5, C10-15: with the high bit of the WR's Q_Key set, the Q_Key of the QP is sent instead: a program cannot
// claim a controlled Q_Key that its QP was not given.
constexpr uint32_t kControlledQkey = 0x80000000;

uint32_t qkey_of(const QpContext& ctx, const SendWqe& wqe) {
    return (wqe.rkey & kControlledQkey) ? ctx.attr.qkey : wqe.rkey;
}

}  // namespace

Built build_message_packet(QpContext& ctx, SendQueue& q, uint32_t payload, TxBatch& batch) {
    SendEntry& e = q.ring.at(q.cur_seq);
    const uint64_t index = q.cur - e.first;
    const bool first = index == 0;
    const bool last = q.cur + 1 == e.end;
    const uint64_t offset = index * ctx.mtu;
    uint32_t segments = 0;
    // IBTA 10.6.3: keys count where the payload was captured too; inline data alone has none.
    const bool captured = e.wqe.mapped != nullptr && e.wqe.num_sge != 0;
    if (payload != 0 && (e.wqe.mapped == nullptr || captured)) {
        const std::span<memory::Segment> room{batch.segments.items.data() + batch.segments.used, batch.segments.room()};
        switch (resolve_range(ctx.env.keys, ctx.config.pd, q.sges_of(q.cur_seq), offset, payload, 0, room, segments)) {
            case SgeStatus::Ok:
                break;
            case SgeStatus::NoRoom:
                return Built::NoRoom;
            case SgeStatus::BadKey:
                e.local_error = WcStatus::LocProtErr;
                return Built::Failed;
            case SgeStatus::Short:
                e.local_error = WcStatus::LocLenErr;
                return Built::Failed;
        }
    }
    const uint8_t opcode = request_opcode(ctx.config.type, e.wqe.opcode, first, last);
    TxPacket& p = add_packet(batch, ctx.qp, opcode, psn_of(q.cur), payload);
    if (e.wqe.mapped != nullptr) {
        p.mapped = e.wqe.mapped + offset;
        p.captured = captured;
    } else {
        p.seg_count = segments;
        batch.segments.used += segments;
        if (payload != 0) p.gather_tag = ctx.gather_tag(q.cur);
    }
    p.remote_addr = e.wqe.remote_addr;
    p.rkey = e.wqe.rkey;
    p.dma_len = e.wqe.length;
    p.imm_data = e.wqe.imm_data;
    p.ah = e.wqe.ah;
    p.dest_qpn = e.wqe.dest_qpn;
    p.srqn = e.wqe.srqn;
    p.qkey = qkey_of(ctx, e.wqe);
    // IBTA 9.2.3: the solicited event bit belongs to the last packet of a SEND or a WRITE with immediate.
    p.solicited = last && (e.wqe.flags & send_flags::kSolicited) && e.wqe.opcode != WrOpcode::RdmaWrite;
    return Built::Ok;
}

uint32_t build_middle_packets(QpContext& ctx, const SendQueue& q, uint64_t most, TxBatch& batch) {
    const SendEntry& e = q.ring.at(q.cur_seq);
    const bool mapped = e.wqe.mapped != nullptr;
    auto n = static_cast<uint32_t>(std::min<uint64_t>(most, kTxBatchPackets - batch.count));
    const bool has_keys = !mapped || e.wqe.num_sge != 0;
    if (!mapped) n = std::min(n, batch.segments.room());
    if (n == 0 || (has_keys && batch.segments.room() == 0)) return 0;
    const uint32_t mtu = ctx.mtu;
    const uint64_t offset = (q.cur - e.first) * mtu;
    // Keys count as there (10.6.3); but of all bytes at once. They are in one piece, or it is not done here.
    std::array<memory::Segment, 1> piece;
    uint32_t pieces = 0;
    if (has_keys && resolve_range(ctx.env.keys, ctx.config.pd, q.sges_of(q.cur_seq), offset, uint64_t{n} * mtu, 0, piece,
                                  pieces) != SgeStatus::Ok)
        return 0;
    TxPacket like = batch.packets[batch.count - 1];
    like.opcode = request_opcode(ctx.config.type, e.wqe.opcode, false, false);
    like.payload_len = mtu;
    like.pad = 0;
    like.ack_req = like.solicited = false;
    for (uint32_t i = 0; i < n; ++i) {
        TxPacket& p = batch.packets[batch.count++];
        p = like;
        p.psn = psn_of(q.cur + i);
        p.seg_first = batch.segments.used;
        if (mapped) {
            p.mapped = e.wqe.mapped + offset + uint64_t{i} * mtu;
            continue;
        }
        p.gather_tag = ctx.gather_tag(q.cur + i);
        p.seg_count = 1;
        memory::Segment& s = batch.segments.items[batch.segments.used++];
        s = piece[0];
        s.length = mtu;
        s.va += uint64_t{i} * mtu;
    }
    return n;
}

}  // namespace rocemu::transport
