// SPDX-License-Identifier: BSD-3-Clause
// Segmentation: one packet of a SEND or WRITE message out of a send WQE, whatever the transport. What is sent next is
// the requester's business. Read IBTA volume 1, 9.7.2 and 9.8.1 (segmentation), 9.4.1, 9.4.3 (SEND, WRITE).
#pragma once

#include "transport/qp_context.h"
#include "transport/send_queue.h"

namespace rocemu::transport {

enum class Built : uint8_t { Ok, NoRoom, Failed };

// Appends the packet at `queue.cur` of the WQE `queue.cur_seq`, with `payload` bytes. Failed: the WQE's local_error says
// why. The cursor is not moved.
Built build_message_packet(QpContext& ctx, SendQueue& queue, uint32_t payload, TxBatch& batch);

// Appends up to `most` packets of the middle of a message, from `queue.cur` on, each with one path MTU of payload, and
// returns how many: what their keys and addresses have in common is looked at once. They are what build_message_packet
// would have made of them one by one; 0: it must do it. Precondition: the last packet of the batch is the one in front
// of them, and the message goes on behind them. The cursor is not moved.
uint32_t build_middle_packets(QpContext& ctx, const SendQueue& queue, uint64_t most, TxBatch& batch);

}  // namespace rocemu::transport
