// SPDX-License-Identifier: BSD-3-Clause
// For verbs_rules: what holds a program's events or requests back because it asked for it (ibv_modify_cq(3),
// ibv_modify_qp_rate_limit(3)), and ATOMIC WRITE by a plain work request.
#include <atomic>
#include <thread>

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {

namespace {

bool event_waits(const ibv_comp_channel* channel, int ms) {
    pollfd p{channel->fd, POLLIN, 0};
    return ::poll(&p, 1, ms) == 1;
}

void take_event(Side& s) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    RULE(event_waits(s.channel, 5000));
    EQUAL(ibv_get_cq_event(s.channel, &cq, &context), 0);
    ibv_ack_cq_events(s.cq, 1);
}

void moderation(Side& a, Side& b) {
    constexpr uint16_t kCount = 4;
    ibv_wc wc{};
    const auto messages = [&](uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            EQUAL(b.receive(i, 64), 0);
            EQUAL(a.send(i, 8), 0);
            RULE(a.poll(wc));
            RULE(b.poll(wc));
        }
    };
    ibv_modify_cq_attr attr{};
    EQUAL(ibv_modify_cq(b.cq, &attr), EINVAL);
    attr.attr_mask = IBV_CQ_ATTR_MODERATE << 1;
    EQUAL(ibv_modify_cq(b.cq, &attr), EINVAL);
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {kCount, 0};
    EQUAL(ibv_modify_cq(b.cq, &attr), 0);
    EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
    messages(kCount - 1);
    RULE(!event_waits(b.channel, 50));
    messages(1);
    take_event(b);
    // Other rings, the same wish.
    EQUAL(ibv_resize_cq(b.cq, 500), 0);
    EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
    messages(1);
    RULE(!event_waits(b.channel, 50));
    messages(kCount - 1);
    take_event(b);
    attr.moderate = {kCount, 1000};  // a millisecond
    EQUAL(ibv_modify_cq(b.cq, &attr), 0);
    EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
    messages(1);
    take_event(b);
    attr.moderate = {};
    EQUAL(ibv_modify_cq(b.cq, &attr), 0);
}

// A request for an event that is made while another thread resizes the CQ is not lost.
void armed_while_resized(Side& a, Side& b) {
    std::atomic<bool> stop{false};
    std::thread resizer([&] {
        for (int cqe = 100; !stop; cqe = 600 - cqe) {
            EQUAL(ibv_resize_cq(b.cq, cqe), 0);
            usleep(100);  // the locks are not fair
        }
    });
    bool told = true;
    ibv_wc wc{};
    for (uint32_t i = 0; told && i < 200; ++i) {
        EQUAL(b.receive(i, 64), 0);
        usleep(i % 8 * 40);  // a poll ends when a resize does: at any time within the next one
        EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
        EQUAL(a.send(i, 8), 0);
        told = event_waits(b.channel, 5000);
        RULE(told);
        if (told) take_event(b);
        RULE(a.poll(wc));
        RULE(b.poll(wc));
    }
    stop = true;
    resizer.join();
}

int64_t now_us() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

void rates(Side& a, Side& b) {
    ibv_device_attr_ex device{};
    EQUAL(ibv_query_device_ex(a.nic->context, nullptr, &device), 0);
    RULE((device.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC) != 0);
    constexpr uint32_t kKbps = 8'000;  // a byte a microsecond
    constexpr int64_t kBytes = 20'000, kBurst = 2'000;
    ibv_qp_rate_limit_attr limit{};
    limit.comp_mask = 1;
    EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
    limit.comp_mask = 0;
    limit.rate_limit = device.packet_pacing_caps.qp_rate_limit_max + 1;
    EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
    limit.rate_limit = kKbps;
    limit.max_burst_sz = kBurst;
    EQUAL(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EQUAL(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
    EQUAL(attr.rate_limit, kKbps);
    ibv_wc wc{};
    EQUAL(b.receive(1, kBytes), 0);
    const int64_t start = now_us();
    EQUAL(a.send(1, kBytes), 0);
    RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS);
    RULE(now_us() - start >= kBytes - kBurst - 4096);  // the last packet may overdraw
    RULE(b.poll(wc));
    attr.rate_limit = 0;
    EQUAL(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
    EQUAL(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
    EQUAL(attr.rate_limit, 0);
}

void atomic_write(Side& a, Side& b) {
    ibv_wc wc{};
    for (const bool in_wqe : {false, true}) {
        std::memset(b.memory.data(), 0, 16);
        std::memset(a.memory.data(), in_wqe ? 0x11 : 0x22, 16);
        ibv_sge sge{reinterpret_cast<uint64_t>(a.memory.data()), 8, a.mr->lkey};
        ibv_send_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_ATOMIC_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (in_wqe) wr.send_flags |= IBV_SEND_INLINE;
        wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b.memory.data());
        wr.wr.rdma.rkey = b.mr->rkey;
        EQUAL(ibv_post_send(a.qp, &wr, &bad), 0);
        RULE(a.poll(wc));
        EQUAL(wc.status, IBV_WC_SUCCESS);
        EQUAL(wc.opcode, IBV_WC_ATOMIC_WRITE);
        RULE(std::memcmp(a.memory.data(), b.memory.data(), 8) == 0);
        RULE(b.memory[8] == 0);
    }
}

}  // namespace

void pacing(Nic& na, Nic& nb) {
    group = "pacing";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16, true));
    RULE(connect(a, b));
    moderation(a, b);
    armed_while_resized(a, b);
    rates(a, b);
    atomic_write(a, b);
    a.destroy();
    b.destroy();
}

}  // namespace rules
