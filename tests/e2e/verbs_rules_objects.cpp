// SPDX-License-Identifier: BSD-3-Clause
// Events, lifetimes, the extended interfaces and fork.
#include <atomic>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

bool readable(int fd, int ms) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, ms) == 1;
}

bool send_one(Side& a, Side& b) {
    ibv_wc wc{};
    return b.receive(1, 64) == 0 && a.send(2, 64) == 0 && b.poll(wc) && wc.status == IBV_WC_SUCCESS && a.poll(wc) &&
           wc.status == IBV_WC_SUCCESS;
}

}  // namespace

void events(Nic& na, Nic& nb) {
    group = "events";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16, true));
    RULE(connect(a, b));
    ibv_wc wc{};
    for (uint32_t i = 0; i < 4; ++i) EQUAL(b.receive(i, 64), 0);
    EQUAL(a.send(0, 8), 0);
    RULE(a.poll(wc));
    RULE(!readable(b.channel->fd, 20));  // not armed
    RULE(b.poll(wc));
    EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
    EQUAL(a.send(1, 8), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    RULE(readable(b.channel->fd, 5000));
    EQUAL(ibv_get_cq_event(b.channel, &cq, &context), 0);
    RULE(cq == b.cq && context == &b);
    RULE(b.poll(wc));
    RULE(!readable(b.channel->fd, 20));  // one event for one request
    // Solicited only: an ordinary message raises none, a solicited one does.
    EQUAL(ibv_req_notify_cq(b.cq, 1), 0);
    EQUAL(a.send(2, 8), 0);
    RULE(b.poll(wc));
    RULE(!readable(b.channel->fd, 50));
    EQUAL(a.send(3, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), 0);
    RULE(readable(b.channel->fd, 5000));
    EQUAL(ibv_get_cq_event(b.channel, &cq, &context), 0);
    RULE(b.poll(wc));
    fcntl(b.channel->fd, F_SETFL, fcntl(b.channel->fd, F_GETFL) | O_NONBLOCK);
    EQUAL(ibv_get_cq_event(b.channel, &cq, &context), -1);
    EQUAL(errno, EAGAIN);
    EQUAL(ibv_destroy_comp_channel(b.channel), EBUSY);
    ibv_ack_cq_events(b.cq, 2);
    while (ibv_poll_cq(a.cq, 1, &wc) > 0) {
    }
    a.destroy();
    b.destroy();
}

void lifetimes(Nic& na, Nic& nb) {
    group = "lifetimes";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    EQUAL(ibv_destroy_cq(a.cq), EBUSY);
    EQUAL(ibv_dealloc_pd(na.pd), EBUSY);
    RULE(connect(a, b));
    RULE(send_one(a, b));
    // Completions of a destroyed QP are never seen, also when another QP shares the CQ.
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = b.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    ibv_qp* second = ibv_create_qp(nb.pd, &init);
    RULE(second != nullptr);
    EQUAL(b.receive(7, 64), 0);
    EQUAL(a.send(8, 64), 0);
    ibv_wc wc{};
    RULE(a.poll(wc));  // so b's completion is in its CQ
    EQUAL(ibv_destroy_qp(b.qp), 0);
    RULE(b.nothing());
    b.qp = second;
    EQUAL(a.to_state(IBV_QPS_RESET), 0);
    RULE(connect(a, b));
    RULE(send_one(a, b));
    EQUAL(ibv_create_cq(na.context, 0, nullptr, nullptr, 0) == nullptr, true);
    EQUAL(ibv_create_cq(na.context, 16, nullptr, nullptr, na.context->num_comp_vectors) == nullptr, true);
    a.destroy();
    b.destroy();
    // Many objects, again and again: nothing is used up.
    for (int round = 0; round < 20; ++round) {
        std::vector<Side> sides(8);
        for (Side& s : sides) RULE(s.make(na, 4));
        for (Side& s : sides) s.destroy();
    }
}

void extended(Nic& na, Nic& nb) {
    group = "extended";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 64;
    cq_attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ibv_cq_ex* cq = ibv_create_cq_ex(na.context, &cq_attr);
    RULE(cq != nullptr);
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 16, 2, 2, 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = na.pd;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    ibv_qp* qp = ibv_create_qp_ex(na.context, &init);
    RULE(qp != nullptr);
    EQUAL(ibv_qp_to_qp_ex(a.qp) == nullptr, true);
    ibv_qp* plain = a.qp;
    a.qp = qp;
    RULE(connect(a, b));
    EQUAL(b.receive(3, 64, 4096), 0);
    std::memcpy(a.memory.data(), "written", 7);
    ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = 0;
    ibv_wr_rdma_write(ex, b.mr->rkey, reinterpret_cast<uint64_t>(b.memory.data()));
    ibv_wr_set_sge(ex, a.mr->lkey, reinterpret_cast<uint64_t>(a.memory.data()), 7);
    ex->wr_id = 2;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    char text[] = "inline";
    ibv_wr_set_inline_data(ex, text, 6);
    EQUAL(ibv_wr_complete(ex), 0);
    ibv_wc wc{};
    RULE(b.poll(wc));
    EQUAL(wc.byte_len, 6u);
    RULE(std::memcmp(b.memory.data(), "written", 7) == 0 && std::memcmp(b.memory.data() + 4096, "inline", 6) == 0);
    ibv_poll_cq_attr none{};
    int rc = ENOENT;
    for (int i = 0; i < 100'000 && rc == ENOENT; ++i) rc = ibv_start_poll(cq, &none);
    EQUAL(rc, 0);
    if (rc == 0) {
        // What the program asks of the CQ meanwhile does not wait for the end of the poll.
        ibv_modify_cq_attr moderation{};
        moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
        EQUAL(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &moderation), 0);
        EQUAL(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
        EQUAL(cq->wr_id, 2u);
        EQUAL(cq->status, IBV_WC_SUCCESS);
        EQUAL(ibv_wc_read_qp_num(cq), qp->qp_num);
        RULE(ibv_wc_read_completion_ts(cq) != 0);
        EQUAL(ibv_next_poll(cq), ENOENT);
        ibv_end_poll(cq);
    }
    EQUAL(ibv_destroy_qp(qp), 0);
    EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    a.qp = plain;
    a.destroy();
    b.destroy();
}

// A thread makes and destroys objects all the time while the process forks: whatever it is at, the child can free what it
// inherited.
void forks_while_busy(Nic& nic) {
    Nic second;
    RULE(second.open(ibv_get_device_name(nic.context->device)));
    std::vector<uint8_t> bytes(4096);
    ibv_alloc_dm_attr size{};
    size.length = 64;
    ibv_mr* mr = ibv_reg_mr(nic.pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_dm* dm = ibv_alloc_dm(nic.context, &size);
    RULE(mr != nullptr && dm != nullptr);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            ibv_dm* another = ibv_alloc_dm(nic.context, &size);
            if (another != nullptr) ibv_free_dm(another);
        }
    });
    std::fflush(stdout);
    for (int i = 0; i < 30; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(ibv_free_dm(dm) == 0 && ibv_dereg_mr(mr) == 0 && ibv_close_device(second.context) == 0 ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        EQUAL(status, 0);
    }
    stop = true;
    busy.join();
    EQUAL(ibv_free_dm(dm), 0);
    EQUAL(ibv_dereg_mr(mr), 0);
    second.close();
}

// What a thread of the parent is in the middle of when the process forks keeps no thread of the child waiting.
void forks_while_posting(Nic& nic) {
    ibv_cq_init_attr_ex cq_init{};
    cq_init.cqe = 16;
    ibv_cq_ex* cq = ibv_create_cq_ex(nic.context, &cq_init);
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
    init.cap = {4, 4, 1, 1, 0};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = nic.pd;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* qp = ibv_create_qp_ex(nic.context, &init);
    RULE(qp != nullptr);
    if (qp == nullptr) return;
    std::atomic<bool> begun{false}, end{false};
    std::thread other([&] {
        ibv_wr_start(ibv_qp_to_qp_ex(qp));
        begun = true;
        while (!end) usleep(1000);
        ibv_wr_abort(ibv_qp_to_qp_ex(qp));
    });
    while (!begun) usleep(1000);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        ibv_send_wr wr{}, *bad = nullptr;
        const bool refused = ibv_post_send(qp, &wr, &bad) == EIO && bad == &wr;
        ibv_wr_start(ibv_qp_to_qp_ex(qp));
        ibv_wr_send(ibv_qp_to_qp_ex(qp));
        _exit(refused && ibv_wr_complete(ibv_qp_to_qp_ex(qp)) == EIO && ibv_resize_cq(ibv_cq_ex_to_cq(cq), 32) == EIO ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    end = true;
    other.join();
    EQUAL(ibv_destroy_qp(qp), 0);
    EQUAL(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// A child may clean up what it inherited, works with devices it opens itself, and disturbs its parent in nothing.
void forks(const char* first, const char* second) {
    group = "fork";
    Nic na, nb;
    RULE(na.open(first) && nb.open(second));
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16, true));
    RULE(connect(a, b));
    RULE(send_one(a, b));
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        group = "fork, child";
        failures = 0;
        ibv_wc wc;
        RULE(ibv_poll_cq(a.cq, 1, &wc) <= 0);
        RULE(a.send(9, 8) != 0);
        a.destroy();
        b.destroy();
        na.close();
        nb.close();
        Nic own_a, own_b;
        RULE(own_a.open(first) && own_b.open(second));
        Side c, d;
        RULE(c.make(own_a, 16) && d.make(own_b, 16));
        RULE(connect(c, d));
        for (int i = 0; i < 100; ++i) RULE(send_one(c, d));
        c.destroy();
        d.destroy();
        own_a.close();
        own_b.close();
        std::fflush(stdout);
        _exit(failures == 0 ? 0 : 1);
    }
    for (int i = 0; i < 100; ++i) RULE(send_one(a, b));
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    for (int i = 0; i < 100; ++i) RULE(send_one(a, b));
    forks_while_busy(na);
    forks_while_posting(na);
    a.destroy();
    b.destroy();
    na.close();
    nb.close();
}

}  // namespace rules
