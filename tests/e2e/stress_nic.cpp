// SPDX-License-Identifier: BSD-3-Clause
// See stress.h: devices, buffers, completions.
#include <time.h>

#include <algorithm>

#include "stress.h"

namespace stress {

Nic nics[2];
std::vector<Op> ops(kOps);

uint64_t now_ms() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000 + static_cast<uint64_t>(t.tv_nsec) / 1000000;
}

namespace {
void need(bool ok, const char* what) {
    if (ok) return;
    std::printf("cannot go on: %s: %s\n", what, std::strerror(errno));
    std::exit(2);
}
}  // namespace

void Nic::open(const char* name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; list != nullptr && i < count && context == nullptr; ++i)
        if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
    if (list != nullptr) ibv_free_device_list(list);
    need(context != nullptr, name);
    ibv_port_attr port{};
    need(ibv_query_port(context, 1, &port) == 0, "query_port");
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid_entry e{};
        if (ibv_query_gid_ex(context, 1, static_cast<uint32_t>(i), &e, 0) != 0 || e.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
        gid = e.gid;
        gid_index = i;
    }
    pd = ibv_alloc_pd(context);
    for (ibv_cq*& c : cq) c = ibv_create_cq(context, 16384, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, buffers.data(), buffers.size() * sizeof(Buffer), int{IBV_ACCESS_LOCAL_WRITE});
    ibv_srq_init_attr init{};
    init.attr = {kShared, 1, 0};
    srq = ibv_create_srq(pd, &init);
    need(gid_index >= 0 && cq[0] != nullptr && cq[1] != nullptr && mr != nullptr && srq != nullptr, "objects");
    for (uint32_t i = 0; i < kBuffers; ++i) free.push_back(i);
    post_shared(256);
    ibv_srq_attr limit{};
    limit.srq_limit = 128;
    need(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0, "modify_srq");
}

void Nic::close() {
    bool ok = ibv_destroy_srq(srq) == 0;
    for (ibv_cq* c : cq) ok &= ibv_destroy_cq(c) == 0;
    ok &= ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0;
    if (!ok) fail("an object is still in use at the end");
}

uint32_t Nic::take(uint64_t& wr_id, uint64_t order) {
    uint32_t number;
    {
        const std::lock_guard guard(lock);
        if (free.empty()) {
            fail("receives are lost");
            std::exit(1);
        }
        number = free.back();
        free.pop_back();
    }
    Buffer& b = buffers[number];
    if (b.canary && std::any_of(b.bytes, b.bytes + kMessage, [](uint8_t x) { return x != kCanary; }))
        fail("a buffer was written after its QP was destroyed", number);
    b.canary = false;
    const auto generation = static_cast<uint32_t>(b.word.load() >> 32) + 1;
    b.posted_at = now_ms();
    b.order = order;
    b.word = word_of(generation, Phase::Posted);
    wr_id = kReceiveBit | uint64_t{number} << 32 | generation;
    return number;
}

void Nic::give_back(uint32_t number, bool canary) {
    Buffer& b = buffers[number];
    b.canary = canary;
    if (canary) std::memset(b.bytes, kCanary, kMessage);
    b.word = word_of(static_cast<uint32_t>(b.word.load() >> 32), Phase::Free);
    const std::lock_guard guard(lock);
    free.push_back(number);
}

void Nic::post_shared(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t id;
        const uint32_t number = take(id, shared_posts.fetch_add(1));
        ibv_sge sge{reinterpret_cast<uint64_t>(buffers[number].bytes), kMessage, mr->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        if (ibv_post_srq_recv(srq, &wr, &bad) == 0) continue;
        give_back(number, false);  // it is full: none was lost
        return;
    }
}

void Nic::recycle(uint64_t older_than_ms) {
    const uint64_t now = now_ms();
    for (uint32_t i = 0; i < kBuffers; ++i) {
        Buffer& b = buffers[i];
        uint64_t word = b.word.load();
        if (static_cast<Phase>(static_cast<uint32_t>(word)) != Phase::Posted || now - b.posted_at < older_than_ms) continue;
        const uint64_t order = b.order;
        if (order == kOwn || shared_posts < order + 2 * kShared) continue;
        if (!b.word.compare_exchange_strong(word, word_of(static_cast<uint32_t>(word >> 32), Phase::Checking))) continue;
        give_back(i, false);
        recycled.fetch_add(1, std::memory_order_relaxed);
    }
}

void Nic::received(const ibv_wc& wc) {
    const auto number = static_cast<uint32_t>(wc.wr_id >> 32 & 0x7fffffff);
    const auto generation = static_cast<uint32_t>(wc.wr_id);
    Buffer& b = buffers[number];
    uint64_t expected = word_of(generation, Phase::Posted);
    // Given up meanwhile: its QP was destroyed between poll and here.
    if (!b.word.compare_exchange_strong(expected, word_of(generation, Phase::Checking))) return;
    if (wc.status == IBV_WC_SUCCESS) {
        Header h;
        std::memcpy(&h, b.bytes, sizeof h);
        if (wc.byte_len < sizeof h || h.length != wc.byte_len || h.op >= kOps)
            fail("a message of another length", wc.byte_len, h.length);
        else if (!holds(b.bytes + sizeof h, h.length - sizeof h, h.seed))
            fail("a byte of a message", h.op, h.length);
        else {
            uint64_t word = ops[h.op].word.load();
            // The send may have been given up with its QP.
            while (word >> 32 == h.generation) {
                if (word & 0x100) {
                    fail("a message came twice", h.op);
                    break;
                }
                if (ops[h.op].word.compare_exchange_weak(word, word | 0x100)) break;
            }
            messages.fetch_add(1, std::memory_order_relaxed);
            bytes_checked.fetch_add(h.length, std::memory_order_relaxed);
        }
    } else if (wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_REM_ACCESS_ERR &&
               wc.status != IBV_WC_REM_INV_REQ_ERR) {
        fail("status of a receive", wc.status);
    }
    b.word = word_of(generation, Phase::Done);
    give_back(number, false);
}

int Nic::poll() {
    int total = 0;
    for (ibv_cq* c : cq) {
        ibv_wc wc[8];
        const int n = ibv_poll_cq(c, 8, wc);
        if (n < 0) fail("poll_cq");
        for (int i = 0; i < n; ++i) {
            if (wc[i].wr_id & kReceiveBit) {
                received(wc[i]);
                continue;
            }
            Op& op = ops[wc[i].wr_id >> 32];
            uint64_t word = op.word.load();
            while (static_cast<uint32_t>(word >> 32) == static_cast<uint32_t>(wc[i].wr_id)) {
                if ((word & 0xff) != 0) {
                    fail("a send completed twice", wc[i].wr_id);
                    break;
                }
                if (op.word.compare_exchange_weak(word, word | (static_cast<uint64_t>(wc[i].status) + 1))) break;
            }
        }
        total += n > 0 ? n : 0;
    }
    return total;
}

}  // namespace stress
