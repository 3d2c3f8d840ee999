// SPDX-License-Identifier: BSD-3-Clause
// See waiting.h.
#include "provider/waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace rocemu::provider {
namespace {

constexpr uint32_t kEmptyPollsBeforeYield = 8;
constexpr uint32_t kEmptyPollsPerCheck = 1024;  // look whether the daemon lives ...
constexpr uint64_t kCheckIntervalNs = 100'000'000;  // ... or when that much time has passed
constexpr uint64_t kContendedYieldNs = 1'000'000;
constexpr uint32_t kContendedWaits = 128;
constexpr uint32_t kMaxOthers = 64;  // then the first CQ of the row is not part of the round any more
constexpr long kSleepNs = 1'000'000;
// A thread that polls several CQs cannot recheck the others before it sleeps: their wake-up may be lost.
constexpr long kShortSleepNs = 100'000;

struct Waiter {
    uint32_t empty;            // polls in a row that found nothing, of any CQ
    uint32_t contended_waits;  // how many waits are still to be sleeps
    uint32_t since_check;
    uint32_t others;           // polls since `first` was polled
    const Cq* first;           // the CQ that began the row; compared only, it may be gone
    bool several;
    uint64_t last_check_ns;
};
thread_local Waiter waiter{};

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void check(Waiter& w, Cq& cq, uint64_t now) {
    w.since_check = 0;
    w.last_check_ns = now;
    cq.session->check_daemon();
}

void sleep(Waiter& w, Cq& cq) {
    abi::SessionPage& page = cq.session->page();
    page.cq_sleepers.fetch_add(1);
    const uint32_t wake = page.cq_wake.load(std::memory_order_acquire);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: the shard's fence between CQE and cq_sleepers
    bool ready = false;
    {
        Guard guard(cq.lock);  // the rings may be changing (ibv_resize_cq)
        ready = cq.looks_ready();
    }
    if (!ready) {
        const timespec limit{0, w.several ? kShortSleepNs : kSleepNs};
        syscall(SYS_futex, &page.cq_wake, FUTEX_WAIT, wake, &limit, nullptr, 0);
    }
    page.cq_sleepers.fetch_sub(1);
}

}  // namespace

void found_work() {
    waiter.empty = 0;
    waiter.several = false;
}

bool wait_after_empty_poll(Cq& cq) {
    Waiter& w = waiter;
    if (w.empty++ == 0 || w.others > kMaxOthers) w.first = &cq;
    if (w.first != &cq) {
        w.several = true;
        ++w.others;
    } else {
        w.others = 0;
    }
    if (++w.since_check >= kEmptyPollsPerCheck) check(w, cq, now_ns());
    if (w.empty <= kEmptyPollsBeforeYield) return false;
    // The daemon waits for us as long as something is to be captured: not the time to sleep.
    if (w.contended_waits > 0 && !cq.pending.load(std::memory_order_relaxed)) {
        // With several CQs only one of them sleeps, once in a round over all.
        if (w.first != &cq) return false;
        --w.contended_waits;
        sleep(w, cq);
        const uint64_t now = now_ns();
        if (now - w.last_check_ns > kCheckIntervalNs) check(w, cq, now);
        return true;
    }
    const uint64_t before = now_ns();
    sched_yield();
    const uint64_t after = now_ns();
    if (after - before > kContendedYieldNs) w.contended_waits = kContendedWaits;
    if (after - w.last_check_ns > kCheckIntervalNs) check(w, cq, after);
    return true;
}

}  // namespace rocemu::provider
