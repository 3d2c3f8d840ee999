// SPDX-License-Identifier: BSD-3-Clause
// Completions: derived from the rings when asked for, oldest first, so that every WQE completes exactly once and in
// order, and a flush of thousands takes as many bounded turns as it needs.
// Read IBTA volume 1, 10.8.6 (completion order), 10.3.1.7 and 11.4.2.1 (flush), 10.7.3.1 (unsignaled).
#pragma once

#include "transport/receive_queue.h"
#include "transport/send_queue.h"

namespace rocemu::transport {

// Each appends what is complete and returns true if more is than fitted.
bool emit_send_completions(const QpContext& ctx, SendQueue& queue, CompletionBatch& batch);
bool emit_receive_completions(const QpContext& ctx, ReceiveQueue& queue, CompletionBatch& batch);

}  // namespace rocemu::transport
