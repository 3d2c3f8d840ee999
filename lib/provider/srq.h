// SPDX-License-Identifier: BSD-3-Clause
// Srq: a shared receive queue. The spinlock guards posting and the change of the queue when it is resized. A slot is free
// again when the daemon has consumed it (a receive is then the QP's); nothing waits for its completion.
#pragma once

#include "provider/objects.h"
#include "provider/work_queue.h"

namespace rocemu::provider {

struct Srq {
    ibv_srq base;
    std::byte foreign_pad[kForeignPad];
    Session* session;
    uint64_t cookie;  // in its events
    WorkQueue queue;
    uint32_t async_delivered;  // under objects_lock
    bool xrc;

    static Srq* of(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
};

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);

}  // namespace rocemu::provider
