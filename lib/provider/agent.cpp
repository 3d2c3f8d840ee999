// SPDX-License-Identifier: BSD-3-Clause
// See agent.h. The thread has all signals blocked and never calls into the application.
#include "provider/agent.h"

#include <new>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "provider/guarded_copy.h"
#include "provider/session.h"

namespace rocemu::provider {
namespace {

constexpr uint32_t kEmptyLooksBeforeYield = 8;
constexpr uint32_t kYieldsBeforeSleep = 64;  // some tens of microseconds on an idle machine

struct AgentStart {
    Session* session;
    abi::AgentRing* ring;
    int fd;
    uint64_t stage_offset;
};

bool execute(const GuardedCopy& copy, abi::AgentJob& job) {
    // The daemon is trusted with this memory (it is the NIC), but its numbers stay within the stage.
    const uint32_t length = job.length, offset = job.stage_offset;
    const bool in_stage = length <= abi::kAgentStageBytes && offset <= abi::kAgentStageBytes - length;
    uint64_t original = 0;
    bool ok = false;
    switch (static_cast<abi::AgentOp>(job.op)) {
        case abi::AgentOp::Read: return in_stage && copy.from_memory(job.va, offset, length);
        case abi::AgentOp::Write: return in_stage && copy.to_memory(job.va, offset, length);
        case abi::AgentOp::CompareSwap:
            ok = GuardedCopy::compare_swap(job.va, job.compare_add, job.swap, &original);
            break;
        case abi::AgentOp::FetchAdd: ok = GuardedCopy::fetch_add(job.va, job.compare_add, &original); break;
    }
    if (ok) job.original = original;
    return ok;
}

void sleep_until_work(abi::AgentRing& ring, uint32_t done) {
    ring.sleeping.store(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: the daemon's fence after it stored `submitted`
    if (ring.submitted.load(std::memory_order_acquire) == done) {
        // Bounded, to notice the end of the session.
        const timespec limit{0, 200'000'000};
        syscall(SYS_futex, &ring.submitted, FUTEX_WAIT, done, &limit, nullptr, 0);
    }
    ring.sleeping.store(0, std::memory_order_relaxed);
}

void serve(const AgentStart& start) {
    abi::AgentRing& ring = *start.ring;
    const GuardedCopy copy(start.fd, start.stage_offset);
    uint32_t done = ring.done.load(std::memory_order_relaxed);
    uint32_t empty = 0;
    while (start.session->alive()) {
        const uint32_t submitted = ring.submitted.load(std::memory_order_acquire);
        if (submitted == done || submitted - done > abi::kAgentJobs) {
            if (++empty <= kEmptyLooksBeforeYield) continue;
            if (empty <= kEmptyLooksBeforeYield + kYieldsBeforeSleep) {
                sched_yield();
            } else {
                sleep_until_work(ring, submitted);
                if (ring.submitted.load(std::memory_order_relaxed) == submitted) start.session->check_daemon();
                empty = kEmptyLooksBeforeYield;
            }
            continue;
        }
        empty = 0;
        // What was received before these jobs were made is not overtaken.
        start.session->receive_stage().drain();
        while (done != submitted) {
            abi::AgentJob& job = ring.jobs[done % abi::kAgentJobs];
            const bool ok = job.change_state(done, abi::AgentJobState::Taken) && execute(copy, job);
            job.result = static_cast<uint32_t>(ok ? abi::AgentResult::Ok : abi::AgentResult::Fault);
            ring.done.store(++done, std::memory_order_release);
        }
    }
}

void* agent_main(void* argument) {
    auto* start = static_cast<AgentStart*>(argument);
    prctl(PR_SET_NAME, "rocemu-agent", 0, 0, 0);
    serve(*start);
    delete start;
    return nullptr;
}

}  // namespace

bool start_agent(Session& session, abi::AgentRing& ring, int region_fd, uint64_t stage_offset) {
    auto* start = new (std::nothrow) AgentStart{&session, &ring, region_fd, stage_offset};
    if (start == nullptr) return false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_t thread;
    const int rc = pthread_create(&thread, &attributes, agent_main, start);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (rc != 0) delete start;
    return rc == 0;
}

}  // namespace rocemu::provider
