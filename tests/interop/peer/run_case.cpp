// SPDX-License-Identifier: BSD-3-Clause
// See run_case.h.
#include "run_case.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "side.h"

namespace interop {

namespace {

// Generous: other cases are played at the same time.
constexpr double kCaseLimit = 300;
// How long the last of what was expected may take; without an expectation, how long nothing must change.
constexpr double kGrace = 20, kQuiet = 0.15;
// RNR that ends: when the receives come. Long enough for some RNR waits of 0.64 ms.
constexpr double kHoldBack = 0.03;

struct Step {
    Ready ready;
    uint8_t failed = 0;
    char why[200] = {};
};

void set(char* to, size_t size, const std::string& text) {
    std::snprintf(to, size, "%s", text.c_str());
}

// Polls; gives the CPU away when there is nothing, and sleeps when there has been nothing for a while.
class Poller {
  public:
    explicit Poller(Side& side) : side_(side) {}
    void operator()() {
        if (side_.poll()) {
            idle_ = 0;
        } else if (++idle_ > 200) {
            usleep(idle_ > 1000 ? 1000 : 100);
        } else {
            sched_yield();
        }
    }

  private:
    Side& side_;
    unsigned idle_ = 0;
};

void work(Channel& channel, Side& side, const Case& c, bool requester, const Ready& peer) {
    Poller poll(side);
    const double start = seconds();
    if (requester) {
        side.post(peer);
        while (!side.all_sent() && seconds() < start + kCaseLimit) poll();
        const uint8_t done = 1;
        channel.send(&done, 1);
        return;
    }
    bool held_back = c.fault == Fault::NoReceive && c.rnr_retry == 7;
    while (!channel.readable()) {
        poll();
        if (held_back && seconds() > start + kHoldBack) {
            side.post_held_back();
            held_back = false;
        }
    }
    uint8_t done = 0;
    channel.receive(&done, 1);
}

std::string settle(Side& side, const std::string& want) {
    const double start = seconds();
    double changed = start;
    std::string text = side.outcome();
    for (;;) {
        const bool settled = want.empty() ? seconds() > changed + kQuiet : text == want && side.arrived();
        if (settled || seconds() > start + kGrace) return text;
        if (!side.poll()) usleep(2000);
        const std::string now = side.outcome();
        if (now != text) changed = seconds();
        text = now;
    }
}

}  // namespace

Reports run_case(Channel& channel, Device& device, const Case& c, bool requester, WireControl* wire) {
    Report mine;
    const auto both = [&] {
        const Report theirs = channel.exchange(mine);
        return requester ? Reports{mine, theirs} : Reports{theirs, mine};
    };
    (void)device.take_events();
    Side side(device, c, requester);
    const Announcement announcement = side.open(), peers = channel.exchange(announcement);
    if (!announcement.possible || !peers.possible) {
        mine.unsupported = !announcement.possible;
        set(mine.outcome, sizeof mine.outcome, announcement.why);
        return both();
    }
    if (wire != nullptr) wire->begin(c.name, c.loss_percent, announcement.qpn, peers.qpn);
    Step step;
    try {
        side.connect(peers);
        step.ready = side.prepare();
    } catch (const Failure& e) {
        step.failed = 1;
        set(step.why, sizeof step.why, e.what());
    }
    const Step theirs = channel.exchange(step);
    if (step.failed || theirs.failed) {
        set(mine.wrong, sizeof mine.wrong, step.why);
        return both();
    }
    std::string failure;
    try {
        work(channel, side, c, requester, theirs.ready);
    } catch (const Failure& e) {
        failure = e.what();
        // The responder waits for this byte (a requester that got further has sent it last).
        const uint8_t done = 1;
        if (requester) channel.send(&done, 1);
    }
    // Where messages may be lost, each side's number of them is open.
    const std::string want = c.may_lose() ? "" : requester ? c.want_requester : c.want_responder;
    set(mine.outcome, sizeof mine.outcome, settle(side, want));
    set(mine.wrong, sizeof mine.wrong, failure.empty() ? side.check_memory() : failure);
    return both();
}

}  // namespace interop
