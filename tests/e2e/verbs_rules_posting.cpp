// SPDX-License-Identifier: BSD-3-Clause
// Posting: which state takes what, depth to the last WR, what bad_wr points to, inline, and what RESET and ERR do.
#include <sys/mman.h>

#include "verbs_rules.h"

namespace rules {

// ints: ibv_reg_mr is a macro that mixes two enums.
constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE, kRemoteWrite = IBV_ACCESS_REMOTE_WRITE;

void posting(Nic& na, Nic& nb) {
    group = "posting";
    Side a, b;
    RULE(a.make(na, 8) && b.make(nb, 8));
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EQUAL(ibv_query_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    EQUAL(attr.qp_state, IBV_QPS_RESET);
    RULE(init.cap.max_send_wr >= 8 && init.cap.max_inline_data >= 64 && init.send_cq == a.cq);
    const uint32_t depth = init.cap.max_send_wr, receive_depth = init.cap.max_recv_wr;

    EQUAL(a.send(0, 8), EINVAL);     // RESET
    EQUAL(a.receive(0, 8), EINVAL);  // RESET
    EQUAL(a.to_init(), 0);
    EQUAL(a.send(0, 8), EINVAL);  // INIT
    EQUAL(b.to_init(), 0);
    EQUAL(a.to_rtr(b), 0);
    EQUAL(a.send(0, 8), EINVAL);  // RTR
    EQUAL(b.to_rtr(a, 31), 0);    // RNR timer of 491 ms: sends stay outstanding for a while
    EQUAL(a.to_rts(), 0);
    EQUAL(b.to_rts(), 0);
    EQUAL(a.qp->state, IBV_QPS_RTS);

    for (uint32_t i = 0; i < depth; ++i) EQUAL(a.send(i, 64, IBV_SEND_SIGNALED, i * 64), 0);
    EQUAL(a.send(99, 64), ENOMEM);
    // A list that does not fit: what fits is posted, bad_wr is the first that was not.
    ibv_sge sge{reinterpret_cast<uint64_t>(b.memory.data()), 128, b.mr->lkey};
    std::vector<ibv_recv_wr> list(receive_depth + 2);
    for (size_t i = 0; i < list.size(); ++i)
        list[i] = {1000 + i, i + 1 < list.size() ? &list[i + 1] : nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    EQUAL(ibv_post_recv(b.qp, list.data(), &bad), ENOMEM);
    EQUAL(bad - list.data(), static_cast<long>(receive_depth));
    ibv_wc wc{};
    for (uint32_t i = 0; i < depth; ++i) {
        RULE(b.poll(wc));
        EQUAL(wc.wr_id, 1000 + i);
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(wc.opcode, IBV_WC_RECV);
        EQUAL(wc.byte_len, 64u);
        RULE(a.poll(wc));
        EQUAL(wc.wr_id, i);
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(wc.opcode, IBV_WC_SEND);
        EQUAL(wc.qp_num, a.qp->qp_num);
    }
    // Unsignaled WRs free their slots with the next signaled one.
    for (int round = 0; round < 5; ++round) {
        for (uint32_t i = 0; i < depth; ++i) {
            EQUAL(b.receive(i, 64), 0);
            EQUAL(a.send(i, 8, i + 1 == depth ? IBV_SEND_SIGNALED : 0), 0);
        }
        for (uint32_t i = 0; i < depth; ++i) RULE(b.poll(wc));
        RULE(a.poll(wc));
        EQUAL(wc.wr_id, depth - 1);
    }
    RULE(a.nothing());

    ibv_send_wr wr{}, *bad_send = nullptr;
    ibv_sge many[5] = {};
    wr.sg_list = many;
    wr.num_sge = 5;
    wr.opcode = IBV_WR_SEND;
    if (init.cap.max_send_sge < 5) EQUAL(ibv_post_send(a.qp, &wr, &bad_send), EINVAL);
    many[0] = {reinterpret_cast<uint64_t>(a.memory.data()), init.cap.max_inline_data + 1, 0};
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_INLINE;
    EQUAL(ibv_post_send(a.qp, &wr, &bad_send), EINVAL);
    many[0].length = 8;
    wr.opcode = IBV_WR_RDMA_READ;
    EQUAL(ibv_post_send(a.qp, &wr, &bad_send), EINVAL);
    // Inline needs no lkey, and the buffer is free when the call returns.
    EQUAL(b.receive(5, 64), 0);
    std::memcpy(a.memory.data(), "inlined!", 8);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = 0x12345678;
    wr.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    EQUAL(ibv_post_send(a.qp, &wr, &bad_send), 0);
    std::memset(a.memory.data(), 0, 8);
    RULE(b.poll(wc));
    EQUAL(wc.imm_data, 0x12345678u);
    EQUAL(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    RULE(std::memcmp(b.memory.data(), "inlined!", 8) == 0);
    RULE(a.poll(wc));
    a.destroy();
    b.destroy();
}

void errors_and_reset(Nic& na, Nic& nb) {
    group = "errors and reset";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    RULE(connect(a, b));
    for (uint32_t i = 0; i < 4; ++i) EQUAL(a.receive(10 + i, 64), 0);
    EQUAL(a.to_state(IBV_QPS_ERR), 0);
    ibv_wc wc{};
    for (uint32_t i = 0; i < 4; ++i) {
        RULE(a.poll(wc));
        EQUAL(wc.wr_id, 10 + i);
        EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    // What is posted in ERR is flushed too.
    EQUAL(a.receive(20, 64), 0);
    RULE(a.poll(wc));
    EQUAL(wc.wr_id, 20u);
    EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
    EQUAL(a.send(21, 64), 0);
    RULE(a.poll(wc));
    EQUAL(wc.wr_id, 21u);
    EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);

    // RESET: completions that nobody has polled are gone, and the QP works again, several times over.
    for (int round = 0; round < 4; ++round) {
        EQUAL(a.receive(30, 64), 0);
        EQUAL(a.to_state(IBV_QPS_ERR), 0);
        EQUAL(a.to_state(IBV_QPS_RESET), 0);
        EQUAL(b.to_state(IBV_QPS_RESET), 0);
        RULE(a.nothing());
        RULE(connect(a, b));
        EQUAL(b.receive(40, 64), 0);
        EQUAL(a.send(41, 64), 0);
        RULE(b.poll(wc));
        EQUAL(wc.wr_id, 40u);
        EQUAL(wc.status, IBV_WC_SUCCESS);
        RULE(a.poll(wc));
        EQUAL(wc.wr_id, 41u);
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(a.receive(31, 64), 0);
    }
    // A receive that is too small: the responder says invalid request, both ends stop.
    EQUAL(b.receive(50, 8), 0);
    EQUAL(a.send(51, 64), 0);
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_REM_INV_REQ_ERR);
    RULE(b.poll(wc));
    EQUAL(wc.status, IBV_WC_LOC_LEN_ERR);
    a.destroy();
    b.destroy();
}

void memory(Nic& na, Nic& nb) {
    group = "memory";
    EQUAL(ibv_reg_mr(na.pd, &na, 8, kRemoteWrite) == nullptr && errno == EINVAL, true);
    void* gone = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 8192);
    EQUAL(ibv_reg_mr(na.pd, gone, 8192, kLocalWrite) == nullptr && errno == EFAULT, true);
    uint8_t byte = 0;
    ibv_mr* empty = ibv_reg_mr(na.pd, &byte, 0, kLocalWrite);
    RULE(empty != nullptr);
    if (empty != nullptr) EQUAL(ibv_dereg_mr(empty), 0);
    // 1 TiB that nobody has touched.
    constexpr size_t kHuge = size_t{1} << 40;
    void* huge = mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge != MAP_FAILED) {
        ibv_mr* mr = ibv_reg_mr(na.pd, huge, kHuge, kLocalWrite);
        RULE(mr != nullptr);
        if (mr != nullptr) EQUAL(ibv_dereg_mr(mr), 0);
        munmap(huge, kHuge);
    }
    // A null region: zeros are read from it, and what is written there is forgotten.
    Side c, d;
    RULE(c.make(na, 8) && d.make(nb, 8));
    RULE(connect(c, d));
    ibv_mr* nothing = ibv_alloc_null_mr(na.pd);
    RULE(nothing != nullptr);
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}) {
        if (nothing == nullptr) break;
        std::memset(d.memory.data(), 0x77, 4096);
        ibv_sge pieces[2] = {{reinterpret_cast<uint64_t>(c.memory.data()), 64, c.mr->lkey},
                             {~uint64_t{0} - 5000, 3000, nothing->lkey}};
        ibv_send_wr half{}, *bad_half = nullptr;
        half.sg_list = pieces;
        half.num_sge = 2;
        half.opcode = opcode;
        half.send_flags = IBV_SEND_SIGNALED;
        half.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(d.memory.data());
        half.wr.rdma.rkey = d.mr->rkey;
        EQUAL(ibv_post_send(c.qp, &half, &bad_half), 0);
        ibv_wc done{};
        RULE(c.poll(done));
        EQUAL(done.status, IBV_WC_SUCCESS);
        EQUAL(c.memory[63], 0x77);
        EQUAL(d.memory[64], opcode == IBV_WR_RDMA_READ ? 0x77 : 0);
        EQUAL(d.memory[3063], opcode == IBV_WR_RDMA_READ ? 0x77 : 0);
        EQUAL(d.memory[3064], 0x77);
    }
    if (nothing != nullptr) EQUAL(ibv_dereg_mr(nothing), 0);
    c.destroy();
    d.destroy();
    // Local memory that goes away while it is registered is a completion with an error, no signal.
    Side a, b;
    RULE(a.make(na, 8) && b.make(nb, 8));
    RULE(connect(a, b));
    void* page = private_memory(8192);
    ibv_mr* mr = ibv_reg_mr(na.pd, page, 8192, kLocalWrite);
    munmap(page, 8192);
    ibv_sge sge{reinterpret_cast<uint64_t>(page), 64, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b.memory.data());
    wr.wr.rdma.rkey = b.mr->rkey;
    EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
    ibv_wc wc{};
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_LOC_PROT_ERR);
    EQUAL(ibv_dereg_mr(mr), 0);
    a.destroy();
    b.destroy();
}

}  // namespace rules
