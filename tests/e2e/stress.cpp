// SPDX-License-Identifier: BSD-3-Clause
// stress DEVICE_A DEVICE_B SECONDS [THREADS]: threads that share completion queues and receive queues create pairs of QPs,
// connect them, send, write, read and count through them, break them in several ways and destroy them, all the time. Each
// byte is checked, each WR must complete once, nothing may be written to memory of a QP that was destroyed.
// Exit code 0: all was as it must be.
#include "stress.h"

#include <poll.h>
#include <sched.h>

#include <thread>

namespace stress {
namespace {

std::atomic<bool> stop{false};
std::atomic<uint64_t> pairs{0};
std::atomic<uint32_t> reached{0};
constexpr uint32_t kPatienceMs = 60'000;  // a machine under load is slow; a WR that is lost never comes

enum class Ending { Graceful, Abrupt, ToErr, BadKey, Reset, kCount };

struct Worker {
    uint32_t number;
    uint64_t random;
    uint32_t first_op, next_op = 0;
    std::vector<uint8_t> memory[2];  // of the two sides: [0, 4096) source, then target of WRITE, READ, and the counter
    ibv_mr* mr[2] = {};
    uint64_t counter = 0;
    bool canary = false;  // the targets hold it

    static constexpr uint32_t kTarget = 4096, kRead = 8192, kCounter = 12288, kSize = 16384;
    static constexpr uint32_t kOpsEach = kOps / 16;

    uint32_t below(uint32_t n) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(random >> 33) % n;
    }
    void run();
    void pair();
    ibv_qp* make(Nic& nic, bool shared, std::vector<uint64_t>& receives);
    bool connect(ibv_qp* qp, Nic& nic, const Nic& peer, uint32_t number);
    bool post_own(Nic& nic, ibv_qp* qp, std::vector<uint64_t>& receives, uint32_t count);
    // Posts one WR; the number of its op, or -1.
    int post(ibv_qp* qp, int side, ibv_wr_opcode opcode, uint32_t length, uint64_t seed, uint32_t rkey);
    uint64_t status(int op) const { return ops[first_op + static_cast<uint32_t>(op)].word.load(); }
    bool wait(int op, uint64_t bits);
    void reclaim(Nic& nic, const std::vector<uint64_t>& receives);
};

ibv_qp* Worker::make(Nic& nic, bool shared, std::vector<uint64_t>& receives) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = nic.cq[below(2)];
    init.recv_cq = nic.cq[below(2)];
    init.srq = shared ? nic.srq : nullptr;
    init.cap = {64, 64, 1, 1, 64};
    ibv_qp* qp = ibv_create_qp(nic.pd, &init);
    if (qp == nullptr) fail("create_qp", static_cast<uint64_t>(errno));
    receives.clear();
    return qp;
}

bool Worker::connect(ibv_qp* qp, Nic& nic, const Nic& peer, uint32_t dest) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = dest;
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(nic.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        return false;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 17;  // half a second: this machine may be busy
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 8;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

bool Worker::post_own(Nic& nic, ibv_qp* qp, std::vector<uint64_t>& receives, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t id;
        const uint32_t buffer = nic.take(id);
        ibv_sge sge{reinterpret_cast<uint64_t>(nic.buffers[buffer].bytes), kMessage, nic.mr->lkey};
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        receives.push_back(id);
        if (ibv_post_recv(qp, &wr, &bad) != 0) return false;
    }
    return true;
}

int Worker::post(ibv_qp* qp, int side, ibv_wr_opcode opcode, uint32_t length, uint64_t seed, uint32_t rkey) {
    const uint32_t slot = next_op++ % kOpsEach;
    Op& op = ops[first_op + slot];
    const auto generation = static_cast<uint32_t>(op.word.load() >> 32) + 1;
    op.word = uint64_t{generation} << 32;
    uint8_t* base = memory[side].data();
    // Each WR has its own part of the source: it must not change before it has completed.
    uint8_t* source = base;
    std::vector<uint8_t> copy;
    ibv_sge sge{reinterpret_cast<uint64_t>(source), length, mr[side]->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = uint64_t{first_op + slot} << 32 | generation;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    const auto target = reinterpret_cast<uint64_t>(memory[1 - side].data());
    switch (opcode) {
        case IBV_WR_SEND: {
            const Header h{seed, length, first_op + slot, generation, 0};
            std::memcpy(source, &h, sizeof h);
            fill(source + sizeof h, length - sizeof h, seed);
            break;
        }
        case IBV_WR_RDMA_WRITE:
            fill(source, length, seed);
            wr.wr.rdma.remote_addr = target + kTarget;
            wr.wr.rdma.rkey = rkey;
            break;
        case IBV_WR_RDMA_READ:
            sge.addr = reinterpret_cast<uint64_t>(base) + kRead;
            wr.wr.rdma.remote_addr = target + kTarget;
            wr.wr.rdma.rkey = rkey;
            break;
        default:
            sge.addr = reinterpret_cast<uint64_t>(base) + kRead;
            sge.length = 8;
            wr.wr.atomic.remote_addr = target + kCounter;
            wr.wr.atomic.rkey = rkey;
            wr.wr.atomic.compare_add = 1;
            break;
    }
    if (const int rc = ibv_post_send(qp, &wr, &bad); rc != 0) {
        fail("post_send", static_cast<uint64_t>(rc));
        return -1;
    }
    return static_cast<int>(slot);
}

bool Worker::wait(int op, uint64_t bits) {
    const uint64_t end = now_ms() + kPatienceMs;
    while ((status(op) & bits) == 0) {
        if (nics[0].poll() + nics[1].poll() == 0) sched_yield();
        if (now_ms() > end) {
            fail(bits == 0x100 ? "a message never came" : "a WR never completed", static_cast<uint64_t>(op), status(op));
            return false;
        }
    }
    return true;
}

void Worker::reclaim(Nic& nic, const std::vector<uint64_t>& receives) {
    for (const uint64_t id : receives) {
        const auto number = static_cast<uint32_t>(id >> 32 & 0x7fffffff);
        uint64_t expected = word_of(static_cast<uint32_t>(id), Phase::Posted);
        if (nic.buffers[number].word.compare_exchange_strong(expected, word_of(static_cast<uint32_t>(id), Phase::Checking)))
            nic.give_back(number, true);
    }
}

void Worker::pair() {
    const int from = static_cast<int>(below(2));
    Nic &na = nics[from], &nb = nics[1 - from];
    const bool shared = below(2) != 0;
    std::vector<uint64_t> receives, none;
    ibv_qp* a = make(na, false, none);
    ibv_qp* b = make(nb, shared, receives);
    if (a == nullptr || b == nullptr) return;
    if (canary) {
        for (int side = 0; side < 2; ++side)
            for (uint32_t i = kTarget; i < kTarget + kMessage; ++i)
                if (memory[side][i] != kCanary) {
                    fail("memory was written after the QPs were destroyed", i);
                    break;
                }
        canary = false;
    }
    const auto ending = static_cast<Ending>(below(static_cast<uint32_t>(Ending::kCount)));
    for (int round = ending == Ending::Reset ? 2 : 1; round > 0; --round) {
        if (!connect(a, na, nb, b->qp_num) || !connect(b, nb, na, a->qp_num)) return fail("modify_qp", static_cast<uint64_t>(errno));
        const uint32_t sends = 4 + below(12);
        if (!shared && !post_own(nb, b, receives, sends + 16)) return fail("post_recv");
        // One at a time: the source of each is filled when the one before has completed.
        for (uint32_t i = 0; i < sends; ++i) {
            const uint64_t seed = uint64_t{number} << 56 | random >> 8;
            const uint32_t length = static_cast<uint32_t>(sizeof(Header)) + below(kMessage - sizeof(Header));
            const int send = post(a, from, IBV_WR_SEND, length, seed, 0);
            if (send < 0 || !wait(send, 0xff) || !wait(send, 0x100)) return;
            if ((status(send) & 0xff) != IBV_WC_SUCCESS + 1) return fail("status of a send", status(send) & 0xff);
            const int write = post(a, from, IBV_WR_RDMA_WRITE, length, ~seed, mr[1 - from]->rkey);
            if (write < 0 || !wait(write, 0xff)) return;
            if (!holds(memory[1 - from].data() + kTarget, length, ~seed)) return fail("bytes of a WRITE", length);
            const int read = post(a, from, IBV_WR_RDMA_READ, length, 0, mr[1 - from]->rkey);
            if (read < 0 || !wait(read, 0xff)) return;
            if (!holds(memory[from].data() + kRead, length, ~seed)) return fail("bytes of a READ", length);
            uint64_t before, found;
            std::memcpy(&before, memory[1 - from].data() + kCounter, 8);
            const int add = post(a, from, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, mr[1 - from]->rkey);
            if (add < 0 || !wait(add, 0xff)) return;
            std::memcpy(&found, memory[from].data() + kRead, 8);
            if (found != before) return fail("a count", found, before);
        }
        if (ending == Ending::Reset && round == 2) {
            ibv_qp_attr reset{};
            reset.qp_state = IBV_QPS_RESET;
            if (ibv_modify_qp(a, &reset, IBV_QP_STATE) != 0 || ibv_modify_qp(b, &reset, IBV_QP_STATE) != 0) return fail("RESET");
            reclaim(nb, receives);
            receives.clear();
        }
    }
    // What is under way when the pair ends: all the same message.
    std::vector<int> out;
    if (ending != Ending::Graceful && ending != Ending::Reset) {
        const uint32_t count = 1 + below(12);
        const uint32_t bad_at = ending == Ending::BadKey ? below(count) : count;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t rkey = mr[1 - from]->rkey + (i == bad_at ? 1u : 0u);
            out.push_back(post(a, from, IBV_WR_RDMA_WRITE, kMessage, 42, rkey));
            if (out.back() < 0) return;
        }
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        if (ending == Ending::ToErr && ibv_modify_qp(below(2) ? a : b, &attr, IBV_QP_STATE) != 0) return fail("ERR");
        // The peer of a broken QP finds out by its timer, or is told.
        if (ending == Ending::ToErr) ibv_modify_qp(a, &attr, IBV_QP_STATE);
        if (ending != Ending::Abrupt)
            for (const int op : out)
                if (!wait(op, 0xff)) return;
    }
    ibv_qp* const order[2] = {below(2) ? a : b, nullptr};
    if (ibv_destroy_qp(order[0]) != 0 || ibv_destroy_qp(order[0] == a ? b : a) != 0) return fail("destroy_qp");
    reclaim(nb, receives);
    for (int side = 0; side < 2; ++side) std::memset(memory[side].data() + kTarget, kCanary, kMessage);
    canary = true;
    ++pairs;
}

void Worker::run() {
    for (int side = 0; side < 2; ++side) {
        memory[side].resize(kSize);
        mr[side] = ibv_reg_mr(nics[side].pd, memory[side].data(), kSize,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
        if (mr[side] == nullptr) return fail("reg_mr");
    }
    while (!stop && failures == 0) pair();
    for (ibv_mr* m : mr)
        if (ibv_dereg_mr(m) != 0) fail("dereg_mr");
}

// Refills the shared queue when it says so, and takes all other events.
void watch(Nic& nic) {
    while (!stop || ::stress::failures == 0) {
        pollfd p{nic.context->async_fd, POLLIN, 0};
        if (::poll(&p, 1, 100) != 1) {
            if (stop) return;
            nic.recycle(20'000);
            continue;
        }
        ibv_async_event event;
        if (ibv_get_async_event(nic.context, &event) != 0) return fail("get_async_event");
        const ibv_event_type type = event.event_type;
        ibv_ack_async_event(&event);
        if (type == IBV_EVENT_SRQ_LIMIT_REACHED) {
            ++reached;
            nic.post_shared(256);
            ibv_srq_attr limit{};
            limit.srq_limit = 128;
            if (ibv_modify_srq(nic.srq, &limit, IBV_SRQ_LIMIT) != 0) return fail("modify_srq");
        } else if (type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_SRQ_ERR) {
            return fail("event", type);
        }
        if (stop) return;
    }
}

}  // namespace
}  // namespace stress

int main(int argc, char** argv) {
    using namespace stress;
    if (argc < 4) {
        std::fprintf(stderr, "usage: stress DEVICE_A DEVICE_B SECONDS [THREADS]\n");
        return 2;
    }
    nics[0].open(argv[1]);
    nics[1].open(argv[2]);
    const uint32_t count = argc > 4 ? static_cast<uint32_t>(std::atoi(argv[4])) : 8;
    std::vector<Worker> workers(count < 16 ? count : 16);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < workers.size(); ++i) {
        workers[i].number = i;
        workers[i].random = i * 7919 + 1;
        workers[i].first_op = i * Worker::kOpsEach;
        threads.emplace_back([&w = workers[i]] { w.run(); });
    }
    std::thread watchers[2] = {std::thread([] { watch(nics[0]); }), std::thread([] { watch(nics[1]); })};
    const uint64_t end = now_ms() + static_cast<uint64_t>(std::atoi(argv[3])) * 1000;
    while (now_ms() < end && failures == 0) poll(nullptr, 0, 100);
    stop = true;
    for (auto& t : threads) t.join();
    for (auto& t : watchers) t.join();
    if (failures == 0)
        for (Nic& nic : nics) nic.close();
    std::printf("stress: %llu pairs, %llu messages, %llu bytes checked, %u refills, %llu receives lost with their QPs, %llu wrong\n",
                (unsigned long long)pairs, (unsigned long long)messages, (unsigned long long)bytes_checked, reached.load(),
                (unsigned long long)recycled, (unsigned long long)failures);
    return failures == 0 && pairs != 0 ? 0 : 1;
}
