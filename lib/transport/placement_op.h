// SPDX-License-Identifier: BSD-3-Clause
// What is done with the payload of a packet that was accepted: it is placed at once where that can be, else by a DmaRequest;
// and what its receive will say. Read IBTA volume 1, 11.4.2.1 (completion contents), 9.7.4.1.7.
#pragma once

#include <span>

#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

// Nothing overtakes what is to be placed before it.
inline bool place_directly(const Environment& env, const DmaQueue& dma, std::span<const memory::Segment> segments,
                           const std::byte* source, bool ends_write) {
    return env.direct != nullptr && segments.size() == 1 && segments[0].key != 0 && dma.empty() &&
           env.direct->place(segments[0], source, ends_write);
}

// `psn`: extended; `receive`, `entry`: the WQE the memory belongs to (SEND), or nullptr (WRITE); `offset`: in the
// message; `last`: its last packet. Nothing for an empty payload.
inline void push_placement(QpContext& ctx, uint64_t psn, std::span<const std::byte> payload,
                           std::span<const memory::Segment> segments, uint64_t receive, const ReceiveEntry* entry,
                           uint64_t offset, bool last) {
    if (payload.empty()) return;
    const bool ends_write = last && entry == nullptr;
    if (place_directly(ctx.env, ctx.dma, segments, payload.data(), ends_write)) return;
    DmaOp& op = ctx.dma.push(segments);
    op.source = payload.data();
    op.packet = psn;
    op.ref = receive;
    op.length = static_cast<uint16_t>(payload.size());
    op.kind = DmaKind::Place;
    op.owner = DmaOwner::Responder;
    op.takes_receive = entry != nullptr;
    op.ends_write = ends_write;
    if (entry != nullptr) {
        op.wqe_index = entry->wqe.index;
        op.deferrable = offset < kMaxDeferredBytes;
    }
}

// The message is complete with this packet; its receive completes when all that was placed so far is there.
inline void fill_receive(ReceiveEntry& e, const wire::PacketView& packet, uint32_t byte_len, uint64_t dma_mark) {
    e.filled = true;
    e.solicited = packet.bth.solicited;
    e.opcode = packet.op->operation == wire::Operation::Send ? WcOpcode::Recv : WcOpcode::RecvRdmaWithImm;
    e.byte_len = byte_len;
    if (packet.op->has_immediate()) {
        e.wc_flags |= wc_flags::kWithImm;
        e.imm_data = __builtin_bswap32(packet.immdt().data);  // verbs hands it on in network order
    }
    e.dma_mark = dma_mark;
}

}  // namespace rocemu::transport
