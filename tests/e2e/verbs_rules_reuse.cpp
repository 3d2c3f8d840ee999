// SPDX-License-Identifier: BSD-3-Clause
// What is gone leaves its place to others: slots of a CQ, locks of a thread that was cancelled; and what stands for the same
// thing is the same: parent domains, imported contexts, the clock.
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

void pause_ms(long ms) {
    const timespec moment{0, ms * 1'000'000};
    nanosleep(&moment, nullptr);
}

// As many flushed receives as fill most of the CQ, and nobody polls for them.
void flush_unseen(Side& s, int n) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = s.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, static_cast<uint32_t>(n), 1, 1, 0};
    ibv_qp* const before = s.qp;
    s.qp = ibv_create_qp(s.nic->pd, &init);
    RULE(s.qp != nullptr);
    EQUAL(s.to_init(), 0);
    for (int i = 0; i < n; ++i) EQUAL(s.receive(1, 8), 0);
    EQUAL(s.to_state(IBV_QPS_ERR), 0);
    pause_ms(20);  // shorter than the daemon takes: then less is tested
    EQUAL(s.to_state(IBV_QPS_RESET), 0);
    EQUAL(s.to_init(), 0);
    for (int i = 0; i < n / 2; ++i) EQUAL(s.receive(1, 8), 0);
    EQUAL(s.to_state(IBV_QPS_ERR), 0);
    pause_ms(20);
    EQUAL(ibv_destroy_qp(s.qp), 0);
    s.qp = before;
}

// The completions of QPs that are gone do not fill a CQ, and those of others keep their order.
void slots_of_a_cq(Nic& na, Nic& nb) {
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    RULE(connect(a, b));
    ibv_wc wc{};
    for (uint64_t round = 0; round < 4; ++round) {
        // In front of them, and behind them.
        EQUAL(b.receive(2 * round, 64), 0);
        EQUAL(a.send(round, 64), 0);
        RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS);
        flush_unseen(b, b.cq->cqe * 3 / 4);
        EQUAL(b.receive(2 * round + 1, 64), 0);
        EQUAL(a.send(round, 32), 0);
        RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS);
    }
    for (uint64_t i = 0; i < 8; ++i) RULE(b.poll(wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.byte_len == (i % 2 ? 32 : 64));
    RULE(b.nothing());
    flush_unseen(b, b.cq->cqe * 3 / 4);
    EQUAL(ibv_resize_cq(b.cq, 4), 0);
    a.destroy();
    b.destroy();
}

struct Poster {
    Side* side;
    bool returned = false;
};

// A post is no place for a thread to end, not even where it has to wake the daemon.
void cancelled_posts(Nic& na, Nic& nb) {
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    RULE(connect(a, b));
    bool alive = true;
    for (int round = 0; round < 10 && alive; ++round) {
        EQUAL(b.receive(1, 64), 0);
        pause_ms(20);  // the daemon goes to sleep
        Poster poster{&a};
        pthread_t thread;
        const auto run = [](void* p) -> void* {
            auto* const poster = static_cast<Poster*>(p);
            pthread_cancel(pthread_self());
            if (poster->side->send(2, 64) == 0) poster->returned = true;
            pthread_testcancel();
            return nullptr;
        };
        EQUAL(pthread_create(&thread, nullptr, run, &poster), 0);
        pthread_join(thread, nullptr);
        RULE(poster.returned);
        alive = poster.returned;  // its locks are gone with it
        ibv_wc wc{};
        if (alive) RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS && b.poll(wc) && wc.status == IBV_WC_SUCCESS);
    }
    if (!alive) return;
    a.destroy();
    b.destroy();
}

void same_domain(Nic& nic) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = nic.pd;
    ibv_pd* const domain = ibv_alloc_parent_domain(nic.context, &attr);
    RULE(domain != nullptr);
    Nic other = nic;
    other.pd = domain;
    Side a, b;
    RULE(a.make(other, 4) && b.make(nic, 4));
    RULE(connect(a, b));
    ibv_mw* const window = ibv_alloc_mw(nic.pd, IBV_MW_TYPE_1);
    ibv_mr* const mr = ibv_reg_mr(nic.pd, a.memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    RULE(window != nullptr && mr != nullptr);
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {mr, reinterpret_cast<uint64_t>(a.memory.data()), 4096, IBV_ACCESS_REMOTE_READ};
    EQUAL(ibv_bind_mw(a.qp, window, &bind), 0);
    ibv_wc wc{};
    RULE(a.poll(wc) && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW);
    EQUAL(ibv_dealloc_mw(window), 0);
    EQUAL(ibv_dereg_mr(mr), 0);
    a.destroy();
    b.destroy();
    EQUAL(ibv_dealloc_pd(domain), 0);
}

// ibv_rereg_mr(3): what libibverbs refuses by itself, and what an import sees afterwards.
void registered_again(Nic& nic) {
    static uint8_t memory[8192];
    ibv_mr* mr = ibv_reg_mr(nic.pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    RULE(mr != nullptr);
    const auto refused = [&nic](ibv_mr* region, int flags, void* addr, size_t length, int access) {
        errno = 0;
        return ibv_rereg_mr(region, flags, nic.pd, addr, length, access) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL;
    };
    RULE(refused(mr, IBV_REREG_MR_CHANGE_TRANSLATION, memory, 0, 0));
    RULE(refused(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 4096, 0));
    RULE(refused(mr, IBV_REREG_MR_CHANGE_TRANSLATION, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
    EQUAL(mr->length, 4096u);
    EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, 8192, 0), 0);
    ibv_mr* const imported = ibv_import_mr(nic.pd, mr->handle);
    RULE(imported != nullptr && imported->length == 8192);
    if (imported != nullptr) ibv_unimport_mr(imported);
    EQUAL(ibv_dereg_mr(mr), 0);
    ibv_alloc_dm_attr attr{4096, 0, 0};
    ibv_dm* const dm = ibv_alloc_dm(nic.context, &attr);
    mr = dm != nullptr ? ibv_reg_dm_mr(nic.pd, dm, 0, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED) : nullptr;
    RULE(mr != nullptr);
    RULE(refused(mr, IBV_REREG_MR_CHANGE_TRANSLATION, memory, 4096, 0));
    EQUAL(ibv_dereg_mr(mr), 0);
    EQUAL(ibv_free_dm(dm), 0);
}

void imported_descriptors(Nic& nic) {
    ibv_context* const imported = ibv_import_device(dup(nic.context->cmd_fd));
    RULE(imported != nullptr);
    if (imported == nullptr) return;
    EQUAL(fcntl(imported->async_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EQUAL(ibv_close_device(imported), 0);
}

// As programs compare them: the whole number in tv_nsec, in the unit of completion timestamps.
void clock(Nic& nic) {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EQUAL(ibv_query_rt_values_ex(nic.context, &values), 0);
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long long ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
    EQUAL(values.raw_clock.tv_sec, 0);
    RULE(values.raw_clock.tv_nsec <= ns && ns - values.raw_clock.tv_nsec < 10'000'000'000LL);
}

}  // namespace

void reuse(Nic& a, Nic& b) {
    group = "reuse";
    slots_of_a_cq(a, b);
    cancelled_posts(a, b);
    same_domain(a);
    registered_again(a);
    imported_descriptors(a);
    clock(a);
}

}  // namespace rules
