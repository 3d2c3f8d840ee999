// SPDX-License-Identifier: BSD-3-Clause
// What a program may rely on although the NIC copies payload at other times than hardware would: a fence, keys, memory
// that goes away, a queue pair that is destroyed with work in it, more data in flight than any staging holds. Legal
// verbs programs that would see wrong bytes or signals if a rule of lib/provider/capture.h were broken.
#include <algorithm>

#include <sys/mman.h>

#include "verbs_rules.h"

namespace rules {
namespace {

constexpr uint32_t kBig = 65536;

int post(Side& s, ibv_wr_opcode opcode, uint64_t id, ibv_sge sge, unsigned flags, const Side* peer = nullptr,
         uint64_t remote_offset = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    if (peer != nullptr) {
        wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(peer->memory.data()) + remote_offset;
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
    return ibv_post_send(s.qp, &wr, &bad);
}
ibv_sge sge_of(const Side& s, uint32_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(s.memory.data()) + offset, length, s.mr->lkey};
}
bool all(const Side& s, uint32_t offset, uint32_t length, uint8_t byte) {
    return std::all_of(s.memory.begin() + offset, s.memory.begin() + offset + length, [&](uint8_t c) { return c == byte; });
}
int status_of_next(Side& s) {
    ibv_wc wc{};
    return s.poll(wc) ? static_cast<int>(wc.status) : -1;
}

// What a READ brings is what a fenced WR, and those behind it, send (IBTA 10.8.3.3).
void fence(Side& a, Side& b) {
    for (int round = 0; round < 20; ++round) {
        const auto byte = static_cast<uint8_t>(100 + round);
        std::fill_n(a.memory.begin(), 2 * kBig, uint8_t{1});
        std::fill_n(b.memory.begin(), kBig, byte);
        EQUAL(b.receive(7, kBig, 2 * kBig), 0);
        EQUAL(post(a, IBV_WR_RDMA_READ, 1, sge_of(a, 0, kBig), IBV_SEND_SIGNALED, &b), 0);
        EQUAL(post(a, IBV_WR_SEND, 2, sge_of(a, 0, kBig), IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
        EQUAL(post(a, IBV_WR_RDMA_WRITE, 3, sge_of(a, 0, kBig), IBV_SEND_SIGNALED, &b, 4 * kBig), 0);
        for (int i = 0; i < 3; ++i) EQUAL(status_of_next(a), IBV_WC_SUCCESS);
        EQUAL(status_of_next(b), IBV_WC_SUCCESS);
        RULE(all(b, 2 * kBig, kBig, byte));
        RULE(all(b, 4 * kBig, kBig, byte));
    }
}

// More than can be staged, unsignaled but for the last: every message arrives as it was.
void flood(Side& a, Side& b) {
    constexpr uint32_t kMessages = 60, kLength = 16000;
    for (uint32_t i = 0; i < kMessages; ++i) {
        std::fill_n(a.memory.begin() + i * kLength, kLength, static_cast<uint8_t>(i + 1));
        EQUAL(post(a, IBV_WR_RDMA_WRITE, i, sge_of(a, i * kLength, kLength), i + 1 == kMessages ? unsigned{IBV_SEND_SIGNALED} : 0u, &b,
                   i * kLength), 0);
    }
    EQUAL(status_of_next(a), IBV_WC_SUCCESS);
    for (uint32_t i = 0; i < kMessages; ++i) RULE(all(b, i * kLength, kLength, static_cast<uint8_t>(i + 1)));
    // The buffer is the program's again from the completion on.
    for (uint32_t i = 0; i < 100; ++i) {
        std::fill_n(a.memory.begin(), 3000, static_cast<uint8_t>(i));
        EQUAL(post(a, IBV_WR_RDMA_WRITE, i, sge_of(a, 0, 3000), IBV_SEND_SIGNALED, &b), 0);
        EQUAL(status_of_next(a), IBV_WC_SUCCESS);
        RULE(all(b, 0, 3000, static_cast<uint8_t>(i)));
    }
}

// Each ends a connection of its own: `sge` completes with LOC_PROT_ERR and nothing else happens.
void refused(Nic& na, Nic& nb, ibv_sge sge, int line) {
    Side a, b;
    RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
    EQUAL(b.receive(1, kBig), 0);
    compare(post(a, IBV_WR_SEND, 1, sge, IBV_SEND_SIGNALED), 0, "post", line);
    compare(status_of_next(a), IBV_WC_LOC_PROT_ERR, "status", line);
    a.destroy();
    b.destroy();
}

void keys(Nic& na, Nic& nb) {
    void* p = private_memory(kBig);
    const auto at = reinterpret_cast<uint64_t>(p);
    ibv_pd* other = ibv_alloc_pd(na.context);
    ibv_mr* foreign = ibv_reg_mr(other, p, kBig, 0);
    ibv_mr* own = ibv_reg_mr(na.pd, p, kBig, 0);
    RULE(other != nullptr && foreign != nullptr && own != nullptr);
    refused(na, nb, {at, 100, 0x12345600}, __LINE__);        // no such key
    refused(na, nb, {1, kBig, 0x12345600}, __LINE__);        // and no such address
    refused(na, nb, {at, 8000, foreign->lkey}, __LINE__);    // a key of another protection domain
    refused(na, nb, {at + 1, kBig, own->lkey}, __LINE__);    // beyond the end
    const uint32_t gone = foreign->lkey;
    EQUAL(ibv_dereg_mr(foreign), 0);
    refused(na, nb, {at, 8, gone}, __LINE__);
    // Memory that went away although it was registered: an error, not a signal.
    EQUAL(mprotect(p, kBig, PROT_NONE), 0);
    refused(na, nb, {at, 8000, own->lkey}, __LINE__);
    EQUAL(munmap(p, kBig), 0);
    refused(na, nb, {at, kBig, own->lkey}, __LINE__);
    refused(na, nb, {at, 8, own->lkey}, __LINE__);
    EQUAL(ibv_dereg_mr(own), 0);
    EQUAL(ibv_dealloc_pd(other), 0);
}

// Queue pairs that go away, or are reset, with work that waits for a receive; the next ones work as before.
void abandoned(Nic& na, Nic& nb) {
    for (int round = 0; round < 12; ++round) {
        Side a, b;
        RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
        for (uint32_t i = 0; i < 30; ++i) EQUAL(a.send(i, kBig / 2, IBV_SEND_SIGNALED, i * (kBig / 4)), 0);
        ibv_wc wc;
        for (int i = 0; i < 50; ++i) EQUAL(ibv_poll_cq(a.cq, 1, &wc), 0);
        if (round % 2 == 0) {
            EQUAL(a.to_state(IBV_QPS_RESET), 0);
            EQUAL(b.to_state(IBV_QPS_RESET), 0);
            RULE(connect(a, b));
            flood(a, b);
        }
        a.destroy();
        b.destroy();
    }
}

}  // namespace

void capture(Nic& na, Nic& nb) {
    group = "capture";
    Side a, b;
    RULE(a.make(na, 64) && b.make(nb, 64) && connect(a, b));
    fence(a, b);
    flood(a, b);
    a.destroy();
    b.destroy();
    keys(na, nb);
    abandoned(na, nb);
}

}  // namespace rules
