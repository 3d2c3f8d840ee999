// SPDX-License-Identifier: BSD-3-Clause
// What ibv_query_device(3) says can be had, to the last one, and one more cannot [case29]; what of a work completion with an
// error may be looked at [case28].
#include <algorithm>

#include <sys/resource.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

ibv_qp* make_qp(Nic& nic, ibv_cq* cq, ibv_qp_cap cap) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = cap;
    ibv_qp* qp = ibv_create_qp(nic.pd, &init);
    if (qp != nullptr) RULE(init.cap.max_send_wr >= cap.max_send_wr && init.cap.max_recv_sge >= cap.max_recv_sge);
    return qp;
}

void sizes(Nic& nic) {
    ibv_device_attr d{};
    EQUAL(ibv_query_device(nic.context, &d), 0);
    const auto wr = static_cast<uint32_t>(d.max_qp_wr), sge = static_cast<uint32_t>(d.max_sge);
    ibv_cq* cq = ibv_create_cq(nic.context, d.max_cqe, nullptr, nullptr, 0);
    RULE(cq != nullptr && cq->cqe >= d.max_cqe);
    RULE(ibv_create_cq(nic.context, d.max_cqe + 1, nullptr, nullptr, 0) == nullptr && errno == EINVAL);
    struct Case {
        ibv_qp_cap cap;
        bool fits;
    };
    for (const Case& c : {Case{{wr, wr, 1, 1, 0}, true}, Case{{1, 1, sge, sge, 0}, true}, Case{{wr + 1, 1, 1, 1, 0}, false},
                          Case{{1, wr + 1, 1, 1, 0}, false}, Case{{1, 1, sge + 1, 1, 0}, false},
                          Case{{1, 1, 1, sge + 1, 0}, false}}) {
        ibv_qp* qp = make_qp(nic, cq, c.cap);
        EQUAL(qp != nullptr, c.fits);
        if (qp == nullptr) EQUAL(errno, EINVAL);
        if (qp != nullptr) EQUAL(ibv_destroy_qp(qp), 0);
    }
    for (const uint32_t more : {0u, 1u}) {
        ibv_srq_init_attr init{};
        init.attr = {static_cast<uint32_t>(d.max_srq_wr) + more, static_cast<uint32_t>(d.max_srq_sge), 0};
        ibv_srq* srq = ibv_create_srq(nic.pd, &init);
        EQUAL(srq != nullptr, more == 0);
        if (srq != nullptr) EQUAL(ibv_destroy_srq(srq), 0);
    }
    EQUAL(ibv_destroy_cq(cq), 0);
}

// A message from as many pieces as a WR may have, into as many.
void pieces(Nic& na, Nic& nb) {
    ibv_device_attr d{};
    ibv_query_device(na.context, &d);
    const auto count = static_cast<uint32_t>(d.max_sge);
    Side a, b;
    RULE(a.make(na, 4) && b.make(nb, 4));
    for (Side* s : {&a, &b}) {
        EQUAL(ibv_destroy_qp(s->qp), 0);
        s->qp = make_qp(*s->nic, s->cq, {4, 4, count, count, 0});
    }
    RULE(a.qp != nullptr && b.qp != nullptr && connect(a, b));
    std::vector<ibv_sge> out(count), in(count);
    for (uint32_t i = 0; i < count; ++i) {
        out[i] = {reinterpret_cast<uint64_t>(a.memory.data()) + i * 200, 101, a.mr->lkey};
        in[i] = {reinterpret_cast<uint64_t>(b.memory.data()) + i * 300, 101, b.mr->lkey};
        std::fill_n(a.memory.begin() + i * 200, 101, static_cast<uint8_t>(i + 1));
    }
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.sg_list = in.data();
    receive.num_sge = static_cast<int>(count);
    ibv_send_wr send{}, *bad_send = nullptr;
    send.sg_list = out.data();
    send.num_sge = static_cast<int>(count);
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    EQUAL(ibv_post_recv(b.qp, &receive, &bad_receive), 0);
    EQUAL(ibv_post_send(a.qp, &send, &bad_send), 0);
    ibv_wc wc{};
    RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS);
    RULE(b.poll(wc) && wc.status == IBV_WC_SUCCESS);
    EQUAL(wc.byte_len, count * 101);
    for (uint32_t i = 0; i < count; ++i) EQUAL(b.memory[i * 300 + 100], i + 1);
    send.num_sge = receive.num_sge = static_cast<int>(count) + 1;
    EQUAL(ibv_post_send(a.qp, &send, &bad_send), EINVAL);
    EQUAL(ibv_post_recv(b.qp, &receive, &bad_receive), EINVAL);
    a.destroy();
    b.destroy();
}

void error_completions(Nic& na, Nic& nb) {
    Side a, b;
    RULE(a.make(na, 8) && b.make(nb, 8));
    RULE(connect(a, b));
    EQUAL(b.receive(70, 8), 0);
    EQUAL(b.receive(71, 64), 0);
    EQUAL(a.send(60, 64), 0);  // longer than the first receive
    EQUAL(a.send(61, 64), 0);
    const struct {
        Side* side;
        uint64_t id;
        ibv_wc_status status;
    } expected[] = {{&b, 70, IBV_WC_LOC_LEN_ERR}, {&b, 71, IBV_WC_WR_FLUSH_ERR}, {&a, 60, IBV_WC_REM_INV_REQ_ERR}, {&a, 61, IBV_WC_WR_FLUSH_ERR}};
    for (const auto& e : expected) {
        ibv_wc wc;
        std::memset(&wc, 0xff, sizeof wc);
        RULE(e.side->poll(wc));
        EQUAL(wc.wr_id, e.id);
        EQUAL(wc.status, e.status);
        EQUAL(wc.qp_num, e.side->qp->qp_num);
        EQUAL(wc.vendor_err, 0);
    }
    a.destroy();
    b.destroy();
}

// Without a free descriptor a queue cannot be made where new shared memory is needed; once there is one, all goes on.
void descriptors(Nic& nic) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const int free = dup(nic.context->async_fd);
    close(free);
    const rlimit none{static_cast<rlim_t>(free), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    constexpr int kCqe = 1 << 20;  // 64 MiB: soon a new region is due
    std::vector<ibv_cq*> made;
    ibv_cq* cq = nullptr;
    while (made.size() < 64 && (cq = ibv_create_cq(nic.context, kCqe, nullptr, nullptr, 0)) != nullptr) made.push_back(cq);
    const int error = errno;
    RULE(made.size() < 64);
    EQUAL(error, EMFILE);
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 2; ++i) {
        cq = ibv_create_cq(nic.context, kCqe, nullptr, nullptr, 0);
        RULE(cq != nullptr);
        if (cq != nullptr) made.push_back(cq);
    }
    for (ibv_cq* c : made) EQUAL(ibv_destroy_cq(c), 0);
}

}  // namespace

void limits(Nic& na, Nic& nb) {
    group = "limits";
    sizes(na);
    pieces(na, nb);
    error_completions(na, nb);
    descriptors(na);
}

}  // namespace rules
