// SPDX-License-Identifier: BSD-3-Clause
// A program without address space for the shared memory of a queue: what is new is refused and nothing else happens; a
// queue that had to move there cannot be used any more, and the program learns that as of a device that fails.
#include <fstream>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

// While it lives, this process gets a few MB of address space at most.
class NoAddressSpace {
  public:
    NoAddressSpace() {
        std::ifstream file("/proc/self/statm");
        rlim_t pages = 0;
        file >> pages;
        getrlimit(RLIMIT_AS, &before_);
        rlimit limit = before_;
        limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (4 << 20);
        setrlimit(RLIMIT_AS, &limit);
    }
    ~NoAddressSpace() { setrlimit(RLIMIT_AS, &before_); }

  private:
    rlimit before_{};
};

struct Objects {
    Nic nic;
    Side side;
    ibv_srq* srq = nullptr;
    ibv_device_attr limits{};

    bool make(const char* device) {
        ibv_srq_init_attr init{};
        init.attr = {4, 32, 0};
        if (!nic.open(device) || ibv_query_device(nic.context, &limits) != 0 || !side.make(nic, 4)) return false;
        srq = ibv_create_srq(nic.pd, &init);
        return srq != nullptr && side.to_init() == 0 && side.receive(7, 64) == 0;
    }
    int refused_cq() {
        const NoAddressSpace none;
        return ibv_create_cq(nic.context, limits.max_cqe, nullptr, nullptr, 0) == nullptr ? errno : 0;
    }
    int resize_cq() {
        const NoAddressSpace none;
        return ibv_resize_cq(side.cq, limits.max_cqe);
    }
    int modify_srq() {
        ibv_srq_attr attr{};
        attr.max_wr = static_cast<uint32_t>(limits.max_srq_wr);
        const NoAddressSpace none;
        return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
    }
};

void ends_like_a_device(const char* device, int (Objects::*move)()) {
    Objects o;
    RULE(o.make(device));
    EQUAL(o.refused_cq(), ENOMEM);
    ibv_cq* fits = ibv_create_cq(o.nic.context, 16, nullptr, nullptr, 0);
    RULE(fits != nullptr);
    EQUAL((o.*move)(), ENOMEM);
    RULE(ibv_create_cq(o.nic.context, 16, nullptr, nullptr, 0) == nullptr);
    EQUAL(errno, EIO);
    pollfd p{o.nic.context->async_fd, POLLIN, 0};
    EQUAL(::poll(&p, 1, 10'000), 1);
    ibv_async_event event{};
    EQUAL(ibv_get_async_event(o.nic.context, &event), 0);
    EQUAL(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_wc wc{};
    RULE(o.side.poll(wc));
    RULE(wc.wr_id == 7 && wc.status == IBV_WC_WR_FLUSH_ERR);
    // A child finds both sessions, the old and the new one, and can free what it inherited.
    Nic again;
    RULE(again.open(device));
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        RULE(ibv_poll_cq(o.side.cq, 1, &wc) < 0);
        RULE(o.side.send(1, 8) != 0);
        o.side.destroy();
        _exit(failures == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    again.close();
    EQUAL(ibv_destroy_srq(o.srq), 0);
    o.side.destroy();
    EQUAL(ibv_destroy_cq(fits), 0);
    o.nic.close();
}

}  // namespace

// In children: the rest of the program keeps its device.
void without_memory(const char* device) {
    for (int (Objects::*move)() : {&Objects::resize_cq, &Objects::modify_srq}) {
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            group = move == &Objects::resize_cq ? "no memory, resize_cq" : "no memory, modify_srq";
            failures = 0;
            alarm(60);
            ends_like_a_device(device, move);
            std::fflush(stdout);
            _exit(failures == 0 ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        group = "no memory";
        EQUAL(status, 0);
    }
}

}  // namespace rules
