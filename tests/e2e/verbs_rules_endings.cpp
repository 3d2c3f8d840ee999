// SPDX-License-Identifier: BSD-3-Clause
// What ends while a thread waits for it, or with events of it that nobody has fetched: a context, a completion channel, a
// QP, an SRQ, a CQ (ibv_get_async_event(3), ibv_get_cq_event(3), ibv_close_device(3)).
#include <atomic>
#include <fstream>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <poll.h>
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

bool readable(int fd, int ms) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, ms) == 1;
}

ibv_srq* make_srq(Nic& nic) {
    ibv_srq_init_attr init{};
    init.attr = {4, 1, 0};
    return ibv_create_srq(nic.pd, &init);
}

// Its limit event, at once: nothing is posted.
void raise_limit(ibv_srq* srq) {
    ibv_srq_attr attr{};
    attr.srq_limit = 1;
    EQUAL(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
}

// The events of an object end with it: there is nothing to read, and no other object at its address gets them.
void events_end(Nic& na, Nic& nb) {
    ibv_srq* first = make_srq(na);
    raise_limit(first);
    RULE(readable(na.context->async_fd, 5000));
    EQUAL(ibv_destroy_srq(first), 0);
    RULE(!readable(na.context->async_fd, 0));
    // One behind another's.
    ibv_srq* stays = make_srq(na);
    ibv_srq* goes = make_srq(na);
    raise_limit(stays);
    raise_limit(goes);
    EQUAL(ibv_destroy_srq(goes), 0);
    ibv_srq* fresh = make_srq(na);
    RULE(readable(na.context->async_fd, 5000));
    const int flags = fcntl(na.context->async_fd, F_GETFL);
    fcntl(na.context->async_fd, F_SETFL, flags | O_NONBLOCK);
    ibv_async_event event{};
    EQUAL(ibv_get_async_event(na.context, &event), 0);
    RULE(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == stays);
    ibv_ack_async_event(&event);
    RULE(!readable(na.context->async_fd, 0));
    EQUAL(ibv_get_async_event(na.context, &event), -1);
    EQUAL(errno, EAGAIN);
    fcntl(na.context->async_fd, F_SETFL, flags);
    EQUAL(ibv_destroy_srq(stays), 0);
    EQUAL(ibv_destroy_srq(fresh), 0);

    Side a, b;
    ibv_wc wc{};
    RULE(a.make(na, 4) && b.make(nb, 4, true) && connect(a, b));
    EQUAL(b.receive(1, 64), 0);
    EQUAL(ibv_req_notify_cq(b.cq, 0), 0);
    EQUAL(a.send(2, 64), 0);
    RULE(a.poll(wc));
    RULE(readable(b.channel->fd, 5000));
    EQUAL(ibv_destroy_qp(b.qp), 0);
    EQUAL(ibv_destroy_cq(b.cq), 0);
    RULE(!readable(b.channel->fd, 0));
    EQUAL(ibv_destroy_comp_channel(b.channel), 0);
    EQUAL(ibv_dereg_mr(b.mr), 0);
    a.destroy();
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
    events_end(na, nb);
    RULE(works(na, nb));
}

}  // namespace rules
