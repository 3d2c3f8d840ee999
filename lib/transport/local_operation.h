// SPDX-License-Identifier: BSD-3-Clause
// Work requests that send nothing: binding a memory window and local invalidation. They are carried out in the order of
// the send queue. Read IBTA volume 1, 10.6.6, 10.6.7 and 10.8.3.3 (what follows sees their effect).
#pragma once

#include "transport/qp_context.h"
#include "transport/work.h"

namespace rocemu::transport {

// False: against the rules, nothing has changed. A window of type 1 is bound on all shards by control before its WQE is
// written; the WQE completes in its turn with success if that happened.
bool run_local_operation(QpContext& ctx, const SendWqe& wqe);

}  // namespace rocemu::transport
