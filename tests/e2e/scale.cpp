// SPDX-License-Identifier: BSD-3-Clause
// scale DEVICE_A DEVICE_B QPS MRS DAEMON_PID: that many QPs, connected in pairs, each pair with a message, and that many
// memory regions, created and destroyed three times. Neither this process nor the daemon may grow from the second round to
// the third, and the later ones may not cost much more CPU time than the first: a cost for each that depends on how many
// there are shows. CPU time of both; what a busy machine adds to it (caches, a daemon that polls) hits single parts only.
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include <infiniband/verbs.h>

namespace {

int daemon_pid = 0;

[[noreturn]] void give_up(const char* what) {
    std::printf("cannot go on: %s: %s\n", what, std::strerror(errno));
    std::exit(2);
}
void need(bool ok, const char* what) {
    if (!ok) give_up(what);
}

// Seconds of CPU of this process and the daemon.
double cpu() {
    char path[64], text[1024] = {};
    std::snprintf(path, sizeof path, "/proc/%d/stat", daemon_pid);
    FILE* file = std::fopen(path, "r");
    need(file != nullptr && std::fread(text, 1, sizeof text - 1, file) > 0, path);
    std::fclose(file);
    unsigned long user = 0, system = 0;
    const char* rest = std::strrchr(text, ')');
    need(rest != nullptr && std::sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2, "stat");
    rusage own;
    getrusage(RUSAGE_SELF, &own);
    const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
    return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK)) + seconds(own.ru_utime) + seconds(own.ru_stime);
}

// MiB in memory.
double resident(int pid) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE* file = std::fopen(path, "r");
    unsigned long pages = 0;
    need(file != nullptr && std::fscanf(file, "%*u %lu", &pages) == 1, path);
    std::fclose(file);
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Nic {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* mr = nullptr;
    ibv_gid gid{};
    uint8_t gid_index = 0;
    alignas(4096) uint8_t memory[4096] = {};

    void open(const char* name) {
        ibv_device** list = ibv_get_device_list(nullptr);
        for (ibv_device** d = list; d != nullptr && *d != nullptr && context == nullptr; ++d)
            if (std::strcmp(ibv_get_device_name(*d), name) == 0) context = ibv_open_device(*d);
        ibv_free_device_list(list);
        need(context != nullptr, name);
        for (uint8_t i = 0; i < 16; ++i) {
            ibv_gid_entry e{};
            if (ibv_query_gid_ex(context, 1, i, &e, 0) != 0 || e.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
            gid = e.gid;
            gid_index = i;
        }
        pd = ibv_alloc_pd(context);
        cq = ibv_create_cq(context, 1024, nullptr, nullptr, 0);
        mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        need(pd != nullptr && cq != nullptr && mr != nullptr, "objects");
    }
    ibv_qp* create() {
        ibv_qp_init_attr init{};
        init.qp_type = IBV_QPT_RC;
        init.send_cq = init.recv_cq = cq;
        init.cap = {1, 1, 1, 1, 0};
        ibv_qp* qp = ibv_create_qp(pd, &init);
        need(qp != nullptr, "create_qp");
        return qp;
    }
    void connect(ibv_qp* qp, const Nic& peer, uint32_t dest) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = dest;
        attr.min_rnr_timer = 1;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = peer.gid;
        attr.ah_attr.grh.sgid_index = gid_index;
        attr.ah_attr.grh.hop_limit = 64;
        attr.ah_attr.port_num = 1;
        need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 17;
        attr.retry_cnt = attr.rnr_retry = 7;
        need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
    }
    void wait(uint64_t id) {
        ibv_wc wc{};
        const time_t end = time(nullptr) + 60;
        int n = 0;
        while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) need(time(nullptr) < end, "a message is late");
        need(n == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == id, "a completion");
    }
};

Nic a, b;

void message(ibv_qp* from, ibv_qp* to, uint64_t id) {
    std::memcpy(a.memory, &id, sizeof id);
    ibv_sge in{reinterpret_cast<uint64_t>(b.memory), 64, b.mr->lkey}, out{reinterpret_cast<uint64_t>(a.memory), 64, a.mr->lkey};
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.wr_id = id;
    receive.sg_list = &in;
    receive.num_sge = 1;
    ibv_send_wr send{}, *bad_send = nullptr;
    send.wr_id = id;
    send.sg_list = &out;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    need(ibv_post_recv(to, &receive, &bad_receive) == 0 && ibv_post_send(from, &send, &bad_send) == 0, "post");
    b.wait(id);
    a.wait(id);
    need(std::memcmp(a.memory, b.memory, 64) == 0, "bytes of a message");
}

int wrong = 0;

// Calls step(0) to step(count - 1) and compares what an eighth of them costs early and late: the cheapest eighth of each half,
// since other programs on the machine make single ones dearer.
template <typename Step>
void linear(const char* what, uint32_t count, bool compare, Step step) {
    constexpr uint32_t kParts = 8;
    double cost[kParts];
    for (uint32_t part = 0; part < kParts; ++part) {
        const double start = cpu();
        for (uint32_t i = count / kParts * part; i < (part + 1 == kParts ? count : count / kParts * (part + 1)); ++i) step(i);
        cost[part] = cpu() - start;
    }
    if (!compare) return;
    const double early = *std::min_element(cost, cost + kParts / 2), late = *std::min_element(cost + kParts / 2, cost + kParts);
    const double all = std::accumulate(cost, cost + kParts, 0.0);
    std::printf("%-12s %7u: %8.2f us of CPU each, second half / first half %.2f\n", what, count, all / count * 1e6, late / std::max(early, 1e-9));
    // A quadratic cost would give 9. Too short to be measured: nothing is said.
    if (early > 0.05 && late / early > 3) {
        std::printf("WRONG: %s is not linear\n", what);
        ++wrong;
    }
}

void round(uint32_t qps, uint32_t mrs, bool compare) {
    std::vector<ibv_qp*> from(qps / 2), to(qps / 2);
    linear("create, connect", qps / 2, compare, [&](uint32_t i) {
        from[i] = a.create();
        to[i] = b.create();
        a.connect(from[i], b, to[i]->qp_num);
        b.connect(to[i], a, from[i]->qp_num);
        message(from[i], to[i], i);
    });
    std::printf("with %u QPs: daemon %.1f MiB, program %.1f MiB\n", qps, resident(daemon_pid), resident(getpid()));
    linear("destroy", qps / 2, compare, [&](uint32_t i) {
        message(from[i], to[i], i);  // they all still work
        need(ibv_destroy_qp(from[i]) == 0 && ibv_destroy_qp(to[i]) == 0, "destroy_qp");
    });
    std::vector<ibv_mr*> regions(mrs);
    linear("reg_mr", mrs, compare, [&](uint32_t i) {
        regions[i] = ibv_reg_mr(a.pd, a.memory, sizeof a.memory, IBV_ACCESS_LOCAL_WRITE);
        need(regions[i] != nullptr, "reg_mr");
    });
    linear("dereg_mr", mrs, compare, [&](uint32_t i) { need(ibv_dereg_mr(regions[i]) == 0, "dereg_mr"); });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: scale DEVICE_A DEVICE_B QPS MRS DAEMON_PID\n");
        return 2;
    }
    const auto qps = static_cast<uint32_t>(std::atoi(argv[3])), mrs = static_cast<uint32_t>(std::atoi(argv[4]));
    daemon_pid = std::atoi(argv[5]);
    a.open(argv[1]);
    b.open(argv[2]);
    double daemon[3], own[3];
    for (int i = 0; i < 3; ++i) {
        round(qps, mrs, i != 0);
        daemon[i] = resident(daemon_pid);
        own[i] = resident(getpid());
    }
    std::printf("after each round: daemon %.1f %.1f %.1f MiB, program %.1f %.1f %.1f MiB\n", daemon[0], daemon[1], daemon[2], own[0], own[1], own[2]);
    for (const double* m : {daemon, own})
        if (m[2] > m[1] * 1.03 + 2) {
            std::printf("WRONG: memory grows\n");
            ++wrong;
        }
    for (Nic* n : {&a, &b})
        need(ibv_dereg_mr(n->mr) == 0 && ibv_destroy_cq(n->cq) == 0 && ibv_dealloc_pd(n->pd) == 0 && ibv_close_device(n->context) == 0, "close");
    return wrong == 0 ? 0 : 1;
}
