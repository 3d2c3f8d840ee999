// SPDX-License-Identifier: BSD-3-Clause
// What responders of every transport do with a packet they have accepted: have its payload placed, and note what its
// receive will say. Read IBTA volume 1, 11.4.2.1 (completion contents), 9.7.4.1.7.
#pragma once

#include <span>

#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

// `psn`: extended; `receive`, `entry`: the WQE the memory belongs to (SEND), or nullptr (WRITE); `offset`: in the
// message; `last`: its last packet. Nothing for an empty payload.
inline void push_placement(DmaQueue& dma, uint64_t psn, std::span<const std::byte> payload,
                           std::span<const memory::Segment> segments, uint64_t receive, const ReceiveEntry* entry,
                           uint64_t offset, bool last) {
    if (payload.empty()) return;
    DmaOp& op = dma.push(segments);
    op.source = payload.data();
    op.packet = psn;
    op.ref = receive;
    op.length = static_cast<uint16_t>(payload.size());
    op.kind = DmaKind::Place;
    op.owner = DmaOwner::Responder;
    op.takes_receive = entry != nullptr;
    op.ends_write = last && entry == nullptr;
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
