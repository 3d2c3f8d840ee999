// SPDX-License-Identifier: BSD-3-Clause
// What ends while a thread waits for it, or with events of it that nobody has fetched: a context, a completion channel, a
// QP, an SRQ, a CQ (ibv_get_async_event(3), ibv_get_cq_event(3), ibv_close_device(3)).
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include <unistd.h>

#include "verbs_rules.h"

namespace rules {
namespace {

// Is that thread of ours asleep in a system call?
bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(')');
    return end != std::string::npos && line.size() > end + 2 && line[end + 2] == 'S';
}

// `wait` blocks in another thread until `end` was called here: it fails with EIO then.
void ends_meanwhile(const std::function<int()>& wait, const std::function<void()>& end) {
    std::atomic<pid_t> id{0};
    int rc = 0, error = 0;
    std::thread waiter([&] {
        id = gettid();
        rc = wait();
        error = errno;
    });
    for (int i = 0; i < 5000 && (id == 0 || !sleeps(id)); ++i) usleep(1000);
    end();
    waiter.join();
    EQUAL(rc, -1);
    EQUAL(error, EIO);
}

// The other context, and all of the daemon that this process has, go on.
void waits_end(Nic& na) {
    ibv_comp_channel* channel = ibv_create_comp_channel(na.context);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ends_meanwhile([&] { return ibv_get_cq_event(channel, &cq, &context); },
                   [&] { EQUAL(ibv_destroy_comp_channel(channel), 0); });
    Nic second;
    RULE(second.open(ibv_get_device_name(na.context->device)));
    ibv_async_event event{};
    ends_meanwhile([&] { return ibv_get_async_event(second.context, &event); }, [&] { second.close(); });
}

bool works(Nic& na, Nic& nb) {
    Side a, b;
    ibv_wc wc{};
    const bool ok = a.make(na, 4) && b.make(nb, 4) && connect(a, b) && b.receive(1, 64) == 0 && a.send(2, 64) == 0 &&
                    a.poll(wc) && wc.status == IBV_WC_SUCCESS && b.poll(wc) && wc.status == IBV_WC_SUCCESS;
    a.destroy();
    b.destroy();
    return ok;
}

}  // namespace

void endings(Nic& na, Nic& nb) {
    group = "endings";
    waits_end(na);
    RULE(works(na, nb));
}

}  // namespace rules
