// SPDX-License-Identifier: BSD-3-Clause
// What a program may rely on although received data may reach its memory late, when it polls: legal verbs programs that
// would see wrong bytes if a rule of docs/adr/0012-deferred-receive.md were broken. Where a test lets time pass, it is to
// let messages arrive that nobody has polled for: if they did not, it only shows less.
#include <algorithm>

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

constexpr uint32_t kBytes = 20000;
constexpr uint32_t kX = 1 << 18, kY = 1 << 19;  // places in the memory

void arrive() {
    const timespec moment{0, 20'000'000};
    nanosleep(&moment, nullptr);
}
int post(Side& s, ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned flags, uint64_t remote = 0, uint32_t rkey = 0) {
    ibv_sge sge{reinterpret_cast<uint64_t>(s.memory.data()) + offset, length, s.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic = {remote, 1, 0, rkey};
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(s.qp, &wr, &bad);
}
uint64_t at(const Side& s, uint32_t offset) { return reinterpret_cast<uint64_t>(s.memory.data()) + offset; }
void fill(Side& s, uint32_t offset, uint32_t length, uint8_t byte) { std::fill_n(s.memory.begin() + offset, length, byte); }
bool all(const uint8_t* p, uint32_t length, uint8_t byte) {
    return std::all_of(p, p + length, [&](uint8_t c) { return c == byte; });
}
bool all(const Side& s, uint32_t offset, uint32_t length, uint8_t byte) { return all(s.memory.data() + offset, length, byte); }
int status_of_next(Side& s) {
    ibv_wc wc{};
    return s.poll(wc) ? static_cast<int>(wc.status) : -1;
}
struct Pair {
    Side a, b;
    Pair(Nic& na, Nic& nb) { RULE(a.make(na, 128) && b.make(nb, 128) && connect(a, b)); }
    ~Pair() {
        a.destroy();
        b.destroy();
    }
};

// Rule 2: one-sided access finds what SENDs before it have brought, and is not undone by them; also by another key of
// the same memory. Nobody polls in between.
void one_sided_behind_send(Nic& na, Nic& nb) {
    Pair p(na, nb);
    ibv_mr* alias = ibv_reg_mr(nb.pd, p.b.memory.data() + kX, kBytes,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    RULE(alias != nullptr);
    for (int round = 0; round < 10; ++round) {
        const auto byte = static_cast<uint8_t>(10 + round);
        fill(p.a, 0, kBytes, byte);
        fill(p.a, kX, kBytes, 200);
        for (int i = 0; i < 3; ++i) EQUAL(p.b.receive(0, kBytes, kX), 0);
        EQUAL(p.a.send(0, kBytes, 0), 0);
        EQUAL(post(p.a, IBV_WR_RDMA_READ, kY, kBytes, 0, at(p.b, kX), alias->rkey), 0);
        EQUAL(post(p.a, IBV_WR_RDMA_WRITE, kX, kBytes / 2, IBV_SEND_FENCE, at(p.b, kX), p.b.mr->rkey), 0);
        EQUAL(post(p.a, IBV_WR_RDMA_READ, kY + kBytes, kBytes, IBV_SEND_SIGNALED, at(p.b, kX), p.b.mr->rkey), 0);
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
        RULE(all(p.a, kY, kBytes, byte));
        RULE(all(p.a, kY + kBytes, kBytes / 2, 200) && all(p.a, kY + kBytes + kBytes / 2, kBytes / 2, byte));
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
        RULE(all(p.b, kX, kBytes / 2, 200) && all(p.b, kX + kBytes / 2, kBytes / 2, byte));
        // An atomic on a number that a SEND has just brought; its result, unsignaled, is there with a later completion.
        const uint64_t number = 1000 + static_cast<uint64_t>(round);
        std::memcpy(p.a.memory.data(), &number, 8);
        EQUAL(p.a.send(0, 8, 0), 0);
        EQUAL(post(p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8, 0, at(p.b, kX), alias->rkey), 0);
        EQUAL(p.a.send(0, 8, IBV_SEND_SIGNALED, 64 + 8), 0);
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
        uint64_t got = 0;
        std::memcpy(&got, p.a.memory.data() + 64, 8);  // rule 9
        EQUAL(got, number);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
    }
    EQUAL(ibv_dereg_mr(alias), 0);
}

// Two receives of one buffer: the later message stays. And what a fenced SEND sends is what READs and atomics before it
// have brought (rule 1).
void order(Nic& na, Nic& nb) {
    Pair p(na, nb);
    for (int round = 0; round < 30; ++round) {
        for (uint32_t i = 0; i < 4; ++i) {
            fill(p.a, i * kBytes, kBytes, static_cast<uint8_t>(round + 50 * i));
            EQUAL(p.b.receive(i, kBytes, kX), 0);
            EQUAL(p.a.send(i, kBytes - i * 100, i == 3 ? IBV_SEND_SIGNALED : 0, i * kBytes), 0);
        }
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
        for (int i = 0; i < 4; ++i) EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
        RULE(all(p.b, kX, kBytes - 300, static_cast<uint8_t>(round + 150)));
        RULE(all(p.b, kX + kBytes - 300, 100, static_cast<uint8_t>(round + 100)));
        // atomic -> fence -> SEND of its result
        const uint64_t number = 77000 + static_cast<uint64_t>(round);
        std::memcpy(p.b.memory.data(), &number, 8);
        std::memset(p.a.memory.data(), 0, 8);
        EQUAL(p.b.receive(9, 8, kY), 0);
        EQUAL(post(p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0, at(p.b, 0), p.b.mr->rkey), 0);
        EQUAL(p.a.send(2, 8, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
        uint64_t got = 0;
        std::memcpy(&got, p.b.memory.data() + kY, 8);
        EQUAL(got, number);
    }
}

// Rule 3: a completion tells of everything before it, by whatever CQ it comes.
void other_queues(Nic& na, Nic& nb) {
    Pair p(na, nb), q(na, nb);
    for (int round = 0; round < 30; ++round) {
        const auto byte = static_cast<uint8_t>(round + 1);
        fill(p.a, 0, kBytes, byte);
        EQUAL(p.b.receive(1, kBytes, kX), 0);
        EQUAL(q.b.receive(1, 8, 0), 0);
        EQUAL(p.a.send(1, kBytes), 0);
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);  // delivered
        RULE(all(p.b, kX, kBytes, byte));
        EQUAL(q.a.send(1, 8), 0);
        EQUAL(status_of_next(q.b), IBV_WC_SUCCESS);
        EQUAL(status_of_next(q.a), IBV_WC_SUCCESS);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
    }
}

// Rule 4: what ends the right to write somewhere is the end of it. The memory is the program's own behind it.
void afterwards(Nic& na, Nic& nb) {
    enum class End { Reset, Destroy, Dereg, Rereg };  // destroy_cq follows destroy_qp
    for (const End end : {End::Reset, End::Destroy, End::Dereg, End::Rereg}) {
        Side a, b;
        RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
        Pair other(na, nb);
        fill(a, 0, kBytes, 1);
        for (uint32_t i = 0; i < 8; ++i) EQUAL(b.receive(i, kBytes, kX + i * kBytes), 0);
        for (uint32_t i = 0; i < 8; ++i) EQUAL(a.send(i, kBytes), 0);
        arrive();
        switch (end) {
            case End::Reset: EQUAL(b.to_state(IBV_QPS_RESET), 0); break;
            case End::Destroy: EQUAL(ibv_destroy_qp(b.qp), 0); break;
            case End::Dereg: EQUAL(ibv_dereg_mr(b.mr), 0); break;
            case End::Rereg:
                EQUAL(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, b.memory.data(), 4096, 0), 0);
                break;
        }
        fill(b, kX, 8 * kBytes, 99);
        EQUAL(other.b.receive(1, 8), 0);
        EQUAL(other.a.send(1, 8), 0);
        EQUAL(status_of_next(other.b), IBV_WC_SUCCESS);
        ibv_wc wc;
        (void)ibv_poll_cq(b.cq, 1, &wc);
        arrive();
        (void)ibv_poll_cq(b.cq, 1, &wc);
        RULE(all(b, kX, 8 * kBytes, 99));
        if (end != End::Destroy) EQUAL(ibv_destroy_qp(b.qp), 0);
        EQUAL(ibv_destroy_cq(b.cq), 0);
        if (end != End::Dereg) EQUAL(ibv_dereg_mr(b.mr), 0);
        a.destroy();
    }
}

// Rules 5 and 10: more than any stage holds while nobody polls, and a message longer than it.
void much(Nic& na, Nic& nb) {
    Pair p(na, nb);
    constexpr uint32_t kMessages = 100, kLength = 10000;
    for (int round = 0; round < 3; ++round) {
        for (uint32_t i = 0; i < kMessages; ++i) {
            fill(p.a, i * kLength, kLength, static_cast<uint8_t>(i + 1));
            EQUAL(p.b.receive(i, kLength, i * kLength), 0);
        }
        for (uint32_t i = 0; i < kMessages; ++i) EQUAL(p.a.send(i, kLength, i + 1 == kMessages ? IBV_SEND_SIGNALED : 0, i * kLength), 0);
        arrive();
        for (uint32_t i = 0; i < kMessages; ++i) {
            EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
            RULE(all(p.b, i * kLength, kLength, static_cast<uint8_t>(i + 1)));
        }
        EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
    }
    const auto whole = static_cast<uint32_t>(p.a.memory.size());
    for (uint32_t i = 0; i < whole; ++i) p.a.memory[i] = static_cast<uint8_t>(i * 7 + i / 251);
    EQUAL(p.b.receive(1, whole), 0);
    EQUAL(p.a.send(1, whole), 0);
    EQUAL(status_of_next(p.a), IBV_WC_SUCCESS);
    EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
    RULE(p.a.memory == p.b.memory);
    fill(p.b, 0, whole, 0);
    EQUAL(post(p.b, IBV_WR_RDMA_READ, 0, whole, IBV_SEND_SIGNALED, at(p.a, 0), p.a.mr->rkey), 0);
    EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
    RULE(p.a.memory == p.b.memory);
}

// Rules 7 and 8: addresses that are none, keys that are none, memory that is none.
void places(Nic& na, Nic& nb) {
    void* page = private_memory(1 << 16);
    ibv_mr* mr = ibv_reg_mr_iova2(nb.pd, page, 1 << 16, 0x7000, IBV_ACCESS_LOCAL_WRITE);
    RULE(mr != nullptr);
    const auto receive = [](Side& s, uint64_t address, uint32_t length, uint32_t key) {
        ibv_sge sge{address, length, key};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        EQUAL(ibv_post_recv(s.qp, &wr, &bad), 0);
    };
    {
        Pair p(na, nb);
        fill(p.a, 0, kBytes, 33);
        receive(p.b, 0x7000 + 100, kBytes, mr->lkey);
        EQUAL(p.a.send(1, kBytes), 0);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
        RULE(all(static_cast<uint8_t*>(page) + 100, kBytes, 33));
    }
    {
        Pair p(na, nb);
        receive(p.b, 0x7000, kBytes, 0x98765400);
        EQUAL(p.a.send(1, kBytes), 0);
        EQUAL(status_of_next(p.b), IBV_WC_LOC_PROT_ERR);
    }
    // Not writable although registered so; then gone between the arrival and the poll.
    for (const bool late : {false, true}) {
        Pair p(na, nb);
        fill(p.a, 0, kBytes, 34);
        if (!late) EQUAL(mprotect(page, 1 << 16, PROT_READ), 0);
        receive(p.b, 0x7000, kBytes, mr->lkey);
        receive(p.b, 0x7000, kBytes, mr->lkey);
        EQUAL(p.a.send(1, kBytes), 0);
        arrive();
        if (late) EQUAL(munmap(page, 1 << 16), 0);
        const int status = status_of_next(p.b);
        RULE(status == IBV_WC_LOC_PROT_ERR || (late && status == IBV_WC_SUCCESS));
        if (!late) EQUAL(status_of_next(p.b), IBV_WC_WR_FLUSH_ERR);
        if (late) continue;
        EQUAL(mprotect(page, 1 << 16, PROT_READ | PROT_WRITE), 0);
        // After RESET the indices begin again: what failed is not told of the receive that has the index now.
        EQUAL(p.a.to_state(IBV_QPS_RESET), 0);
        EQUAL(p.b.to_state(IBV_QPS_RESET), 0);
        RULE(connect(p.a, p.b));
        receive(p.b, 0x7000, kBytes, mr->lkey);
        EQUAL(p.a.send(1, kBytes), 0);
        EQUAL(status_of_next(p.b), IBV_WC_SUCCESS);
    }
    EQUAL(ibv_dereg_mr(mr), 0);
    // A READ into memory that is not there.
    Pair p(na, nb);
    void* gone = private_memory(1 << 16);
    mr = ibv_reg_mr(na.pd, gone, 1 << 16, IBV_ACCESS_LOCAL_WRITE);
    EQUAL(munmap(gone, 1 << 16), 0);
    ibv_sge sge{reinterpret_cast<uint64_t>(gone), kBytes, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {at(p.b, 0), p.b.mr->rkey};
    EQUAL(ibv_post_send(p.a.qp, &wr, &bad), 0);
    EQUAL(status_of_next(p.a), IBV_WC_LOC_PROT_ERR);
    EQUAL(ibv_dereg_mr(mr), 0);
}

}  // namespace

void deferred(Nic& na, Nic& nb) {
    group = "deferred";
    one_sided_behind_send(na, nb);
    order(na, nb);
    other_queues(na, nb);
    afterwards(na, nb);
    much(na, nb);
    places(na, nb);
}

// Rule 11: what came before a fork and was not polled for comes to the parent, and to nobody else.
void forks_with_receives(const char* first, const char* second) {
    group = "fork with receives";
    Nic na, nb;
    RULE(na.open(first) && nb.open(second));
    Side a, b;
    RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
    fill(a, 0, kBytes, 5);
    fill(b, kX, kBytes, 6);
    EQUAL(b.receive(1, kBytes, kX), 0);
    EQUAL(a.send(1, kBytes), 0);
    arrive();
    std::fflush(stdout);
    const bool early = all(b, kX, kBytes, 5);  // it is in its place already
    const pid_t child = fork();
    if (child == 0) {
        ibv_wc wc;
        failures = 0;
        RULE(ibv_poll_cq(b.cq, 1, &wc) <= 0);
        EQUAL(ibv_dereg_mr(b.mr), 0);
        RULE(all(b, kX, kBytes, early ? 5 : 6));
        std::fflush(stdout);
        _exit(failures == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    EQUAL(status_of_next(b), IBV_WC_SUCCESS);
    RULE(all(b, kX, kBytes, 5));
    a.destroy();
    b.destroy();
    na.close();
    nb.close();
}

}  // namespace rules
