// SPDX-License-Identifier: BSD-3-Clause
// XRC as ibv_open_xrcd(3), ibv_create_srq_ex(3) and ibv_open_qp(3) say: what is refused, what is in use by what, who gets
// which completion, and two processes that share a domain.
#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

ibv_xrcd* open_domain(Nic& nic, int fd, int oflags = O_CREAT) {
    ibv_xrcd_init_attr attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, oflags};
    return ibv_open_xrcd(nic.context, &attr);
}

// An application's receiving half: a domain, a shared queue in it, its CQ and memory.
struct Receiver {
    Side side;  // for its PD, CQ and memory
    ibv_xrcd* xrcd = nullptr;
    ibv_srq* srq = nullptr;
    uint32_t number = 0;

    bool make(Nic& nic, int fd) {
        if (!side.make(nic, 16)) return false;
        xrcd = open_domain(nic, fd);
        ibv_srq_init_attr_ex init{};
        init.attr = {16, 2, 0};
        init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        init.srq_type = IBV_SRQT_XRC;
        init.pd = nic.pd;
        init.xrcd = xrcd;
        init.cq = side.cq;
        srq = xrcd != nullptr ? ibv_create_srq_ex(nic.context, &init) : nullptr;
        return srq != nullptr && ibv_get_srq_num(srq, &number) == 0;
    }
    int receive(uint64_t id, uint32_t length = 4096) {
        ibv_sge sge{reinterpret_cast<uint64_t>(side.memory.data()), length, side.mr->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        return ibv_post_srq_recv(srq, &wr, &bad);
    }
    void destroy() {
        EQUAL(ibv_destroy_srq(srq), 0);
        EQUAL(ibv_close_xrcd(xrcd), 0);
        side.destroy();
    }
};

ibv_qp* make_target(Nic& nic, ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    return ibv_create_qp_ex(nic.context, &init);
}

ibv_qp* open_target(Nic& nic, ibv_xrcd* xrcd, uint32_t number) {
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = number;
    attr.xrcd = xrcd;
    attr.qp_type = IBV_QPT_XRC_RECV;
    return ibv_open_qp(nic.context, &attr);
}

ibv_qp* make_initiator(Nic& nic, ibv_cq* cq) {
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.qp_type = IBV_QPT_XRC_SEND;
    init.cap = {16, 0, 2, 0, 64};
    return ibv_create_qp(nic.pd, &init);
}

// From RESET to RTS towards a QP of `peer`.
int join(ibv_qp* qp, Nic& nic, Nic& peer, uint32_t number) {
    const bool target = qp->qp_type == IBV_QPT_XRC_RECV;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = number;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(nic.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const int responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (rc == 0) rc = ibv_modify_qp(qp, &attr, path | (target ? responder : 0));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    const int requester = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (rc == 0)
        rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | (target ? 0 : requester));
    return rc;
}

int request(ibv_qp* qp, const Side& from, const Side& to, ibv_wr_opcode opcode, uint32_t srqn, uint32_t length) {
    ibv_sge sge{reinterpret_cast<uint64_t>(from.memory.data()), length, from.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = 0x01020304;
    wr.qp_type.xrc.remote_srqn = srqn;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to.memory.data());
    wr.wr.rdma.rkey = to.mr->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = reinterpret_cast<uint64_t>(to.memory.data());
        wr.wr.atomic.rkey = to.mr->rkey;
        wr.wr.atomic.compare_add = 3;
    }
    return ibv_post_send(qp, &wr, &bad);
}

void refusals(Nic& nic) {
    ibv_xrcd_init_attr attr{IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT};
    RULE(ibv_open_xrcd(nic.context, &attr) == nullptr);
    EQUAL(errno, EINVAL);
    const int file = memfd_create("xrcd", MFD_CLOEXEC);
    RULE(open_domain(nic, file, 0) == nullptr);
    EQUAL(errno, EAGAIN);
    RULE(open_domain(nic, 987, O_CREAT) == nullptr);
    EQUAL(errno, EBADF);
    ibv_xrcd* first = open_domain(nic, file);
    RULE(first != nullptr);
    RULE(open_domain(nic, file, O_CREAT | O_EXCL) == nullptr);
    EQUAL(errno, EINVAL);
    ibv_qp* target = make_target(nic, first);
    RULE(target != nullptr);
    RULE(open_target(nic, first, target->qp_num + 1) == nullptr);
    EQUAL(errno, EINVAL);
    ibv_xrcd* alone = open_domain(nic, -1);
    RULE(alone != nullptr && open_target(nic, alone, target->qp_num) == nullptr);
    EQUAL(ibv_close_xrcd(alone), 0);
    EQUAL(ibv_close_xrcd(first), EBUSY);
    ibv_qp* handle = open_target(nic, first, target->qp_num);
    RULE(handle != nullptr && handle->qp_num == target->qp_num);
    // A target has no queues.
    ibv_send_wr send{}, *bad_send = nullptr;
    EQUAL(ibv_post_send(target, &send, &bad_send), EINVAL);
    ibv_recv_wr receive{}, *bad = nullptr;
    EQUAL(ibv_post_recv(target, &receive, &bad), EINVAL);
    EQUAL(ibv_destroy_qp(target), 0);
    EQUAL(ibv_close_xrcd(first), EBUSY);  // the other handle
    EQUAL(ibv_destroy_qp(handle), 0);
    EQUAL(ibv_close_xrcd(first), 0);
    ibv_srq_init_attr basic{};
    basic.attr = {4, 1, 0};
    ibv_srq* srq = ibv_create_srq(nic.pd, &basic);
    uint32_t number = 0;
    EQUAL(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
    EQUAL(ibv_destroy_srq(srq), 0);
    close(file);
}

void operations(Nic& na, Nic& nb) {
    Side a;
    Receiver b, other;
    RULE(a.make(na, 16) && b.make(nb, -1) && other.make(nb, -1));
    ibv_qp* initiator = make_initiator(na, a.cq);
    ibv_qp* target = make_target(nb, b.xrcd);
    RULE(initiator != nullptr && target != nullptr);
    EQUAL(join(initiator, na, nb, target->qp_num), 0);
    EQUAL(join(target, nb, na, initiator->qp_num), 0);
    ibv_recv_wr receive{}, *bad = nullptr;
    EQUAL(ibv_post_recv(initiator, &receive, &bad), EINVAL);
    EQUAL(ibv_destroy_cq(b.side.cq), EBUSY);
    std::memset(a.memory.data(), 0x5a, 4096);
    ibv_wc wc{};
    EQUAL(b.receive(1), 0);
    EQUAL(request(initiator, a, b.side, IBV_WR_SEND, b.number, 3000), 0);
    RULE(b.side.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.wr_id, 1);
    EQUAL(wc.qp_num, target->qp_num);
    EQUAL(wc.byte_len, 3000);
    EQUAL(b.side.memory[2999], 0x5a);
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(b.receive(2), 0);
    EQUAL(request(initiator, a, b.side, IBV_WR_RDMA_WRITE_WITH_IMM, b.number, 4096), 0);
    RULE(b.side.poll(wc));
    EQUAL(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EQUAL(wc.byte_len, 4096);
    EQUAL(wc.imm_data, 0x01020304);
    RULE(a.poll(wc));
    const uint64_t seven = 7;
    std::memcpy(b.side.memory.data(), &seven, 8);
    EQUAL(request(initiator, a, b.side, IBV_WR_ATOMIC_FETCH_AND_ADD, b.number, 8), 0);
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(a.memory[0], 7);
    EQUAL(b.side.memory[0], 10);
    EQUAL(request(initiator, a, b.side, IBV_WR_RDMA_READ, b.number, 4096), 0);
    RULE(a.poll(wc));
    EQUAL(a.memory[0], 10);
    // A queue of another domain.
    EQUAL(other.receive(3), 0);
    EQUAL(request(initiator, a, b.side, IBV_WR_SEND, other.number, 64), 0);
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_REM_INV_RD_REQ_ERR);
    RULE(other.side.nothing());
    EQUAL(ibv_destroy_qp(initiator), 0);
    EQUAL(ibv_destroy_qp(target), 0);
    a.destroy();
    b.destroy();
    other.destroy();
}

constexpr uint32_t kForeign = 3000;  // bytes that pass through a target of another process

// What the child tells its parent.
struct Invitation {
    uint32_t qpn, srqn;
    ibv_gid gid;
};

// Another process creates a target in a domain of a file, and dies.
void shared_domain(Nic& na, const char* name_b) {
    const int file = memfd_create("xrcd", MFD_CLOEXEC);
    int to_parent[2], to_child[2];
    RULE(pipe(to_parent) == 0 && pipe(to_child) == 0);
    Nic nb;
    RULE(nb.open(name_b));
    Side a;
    Receiver mine;
    RULE(a.make(na, 16) && mine.make(nb, file));
    ibv_qp* initiator = make_initiator(na, a.cq);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        Nic own;
        Receiver theirs;
        RULE(own.open(name_b) && theirs.make(own, file));
        ibv_qp* target = make_target(own, theirs.xrcd);
        RULE(target != nullptr);
        EQUAL(join(target, own, na, initiator->qp_num), 0);
        EQUAL(theirs.receive(1), 0);
        const Invitation told{target->qp_num, theirs.number, own.gid};
        RULE(write(to_parent[1], &told, sizeof told) == sizeof told);
        ibv_wc wc{};
        RULE(theirs.side.poll(wc));
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(wc.byte_len, 100);
        EQUAL(theirs.side.memory[99], 0x33);
        char go;
        RULE(read(to_child[0], &go, 1) == 1);
        // What came through this process's target into the other one's memory is nothing to this one, which has its own
        // at the same address: a copy from before the fork.
        RULE(ibv_poll_cq(theirs.side.cq, 1, &wc) == 0);
        RULE(std::count(mine.side.memory.begin(), mine.side.memory.begin() + kForeign, 0) == kForeign);
        std::fflush(stdout);
        _exit(failures == 0 ? 0 : 1);  // without a word: the daemon cleans up
    }
    Invitation invited{};
    RULE(read(to_parent[0], &invited, sizeof invited) == sizeof invited);
    ibv_qp* handle = open_target(nb, mine.xrcd, invited.qpn);
    RULE(handle != nullptr);
    if (handle != nullptr) EQUAL(handle->state, IBV_QPS_RTS);
    EQUAL(join(initiator, na, nb, invited.qpn), 0);
    std::memset(a.memory.data(), 0x33, 4096);
    EQUAL(request(initiator, a, mine.side, IBV_WR_SEND, invited.srqn, 100), 0);
    ibv_wc wc{};
    RULE(a.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    // Memory is its shared receive queue's process's, not the queue pair's (docs/adr/0012, rule 6).
    EQUAL(mine.receive(77), 0);
    EQUAL(request(initiator, a, mine.side, IBV_WR_SEND, mine.number, kForeign), 0);
    RULE(mine.side.poll(wc));
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.wr_id, 77);
    RULE(std::count(mine.side.memory.begin(), mine.side.memory.begin() + kForeign, 0x33) == kForeign);
    RULE(a.poll(wc));
    RULE(write(to_child[1], "x", 1) == 1);
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    // The target serves whoever still has it.
    for (uint64_t i = 0; i < 10; ++i) {
        EQUAL(mine.receive(i), 0);
        EQUAL(request(initiator, a, mine.side, IBV_WR_SEND, mine.number, 200), 0);
        RULE(mine.side.poll(wc));
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(wc.wr_id, i);
        RULE(a.poll(wc));
    }
    if (handle != nullptr) EQUAL(ibv_destroy_qp(handle), 0);
    EQUAL(ibv_destroy_qp(initiator), 0);
    mine.destroy();
    a.destroy();
    nb.close();
    for (const int fd : {file, to_parent[0], to_parent[1], to_child[0], to_child[1]}) close(fd);
}

}  // namespace

void xrc(Nic& na, Nic& nb) {
    group = "XRC";
    refusals(na);
    operations(na, nb);
    shared_domain(na, ibv_get_device_name(nb.context->device));
}

}  // namespace rules
