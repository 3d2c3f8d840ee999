// SPDX-License-Identifier: BSD-3-Clause
// PayloadMover over both paths: our own process and a forked child by process_vm, a thread of this test as the agent;
// memory that vanished, a process that vanished, an agent that sleeps, lies or is stuck.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "payload/mover.h"
#include "payload/probe.h"

using namespace rocemu;
using namespace rocemu::payload;

namespace {

constexpr size_t kPage = 4096;

struct Pages {
    explicit Pages(size_t n)
        : p(static_cast<std::byte*>(
              mmap(nullptr, n * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
          bytes(n * kPage) {}
    ~Pages() { munmap(p, bytes); }
    void hole(size_t page) { mprotect(p + page * kPage, kPage, PROT_NONE); }
    std::byte* p;
    size_t bytes;
};

uint64_t address(const void* p) {
    return reinterpret_cast<uint64_t>(p);
}

// The application's side of abi/agent_ring.h.
struct Agent {
    Agent()
        : ring(static_cast<abi::AgentRing*>(
              mmap(nullptr, sizeof(abi::AgentRing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
    ~Agent() {
        end();
        munmap(ring, sizeof *ring);
    }
    void start() {
        thread = std::thread([this] { run(); });
    }
    void end() {
        stop = true;
        if (thread.joinable()) thread.join();
    }
    void run() {
        uint32_t n = ring->done.load();
        while (!stop) {
            const uint32_t submitted = ring->submitted.load(std::memory_order_acquire);
            if (n == submitted) {
                ring->sleeping.store(1);
                std::atomic_thread_fence(std::memory_order_seq_cst);
                const timespec t{0, 20'000'000};
                if (ring->submitted.load() == n) syscall(SYS_futex, &ring->submitted, FUTEX_WAIT, n, &t, nullptr, 0);
                ring->sleeping.store(0);
                continue;
            }
            for (; n != submitted; ++n)
                if (takes(ring->jobs[n % abi::kAgentJobs], n)) execute(ring->jobs[n % abi::kAgentJobs]);
            ring->done.store(n, std::memory_order_release);
        }
    }
    // It may have stood still in the middle of a job.
    static bool takes(abi::AgentJob& job, uint32_t n) {
        return job.state == abi::agent_job_word(n, abi::AgentJobState::Taken) ||
               job.change_state(n, abi::AgentJobState::Taken);
    }
    void execute(abi::AgentJob& job) {
        ++executed;
        job.result = static_cast<uint32_t>(abi::AgentResult::Fault);
        if (job.va >= fault_from && job.va < fault_to) return;
        auto* va = reinterpret_cast<std::byte*>(job.va);
        const auto op = static_cast<abi::AgentOp>(job.op);
        if (op == abi::AgentOp::Read) std::memcpy(ring->stage + job.stage_offset, va, job.length);
        if (op == abi::AgentOp::Write) std::memcpy(va, ring->stage + job.stage_offset, job.length);
        if (op == abi::AgentOp::CompareSwap || op == abi::AgentOp::FetchAdd) {
            uint64_t v;
            std::memcpy(&v, va, 8);
            job.original = v;
            v = op == abi::AgentOp::FetchAdd ? v + job.compare_add : (v == job.compare_add ? job.swap : v);
            std::memcpy(va, &v, 8);
        }
        last_length = job.length;
        job.result = static_cast<uint32_t>(abi::AgentResult::Ok);
    }
    abi::AgentRing* ring;
    std::thread thread;
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> executed{0}, last_length{0};
    uint64_t fault_from = 0, fault_to = 0;
};

struct World {
    stats::CounterBlock counters;
    PayloadMover mover{counters};
    SpaceStats stats;
    Result result{};
    void add(Path path, int pid = getpid(), abi::AgentRing* ring = nullptr) {
        mover.add_space({1, pid, path, ring, nullptr, &stats});
    }
    Outcome copy(Direction d, std::vector<Piece> pieces, uint64_t cookie = 7) {
        return mover.copy(1, d, pieces, cookie, {0}, result);
    }
    // Until one result has come.
    Result wait(Instant now = {1}) {
        Result r{};
        for (int i = 0; i < 200'000 && mover.poll(now, {&r, 1}) == 0; ++i) std::this_thread::yield();
        return r;
    }
};

std::vector<std::byte> pattern(size_t n, uint8_t seed) {
    std::vector<std::byte> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = static_cast<std::byte>(i * 31 + seed);
    return v;
}

}  // namespace

TEST_CASE("process_vm moves many pieces both ways, adjacent and scattered") {
    World w;
    w.add(Path::ProcessVm);
    Pages app(300);
    auto local = pattern(600 * 1000, 3);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < 600; ++i)  // more than one batch; every third leaves a gap
        pieces.push_back({local.data() + i * 1000, address(app.p) + i * 1000 + (i / 3) * 8, 1000});
    REQUIRE(w.copy(Direction::ToSpace, pieces) == Outcome::Done);
    for (const auto& p : pieces) REQUIRE(std::memcmp(p.local, reinterpret_cast<void*>(p.va), p.length) == 0);

    std::vector<std::byte> back(local.size());
    auto from = pieces;
    for (size_t i = 0; i < from.size(); ++i) from[i].local = back.data() + i * 1000;
    REQUIRE(w.copy(Direction::FromSpace, from) == Outcome::Done);
    CHECK(back == local);
    CHECK(w.counters.get(stats::Counter::payload_process_vm_bytes) == 2 * local.size());
    CHECK(w.stats.process_vm_bytes == 2 * local.size());
    CHECK(w.mover.idle());
}

TEST_CASE("vanished memory is a fault of exactly the first bad piece") {
    World w;
    w.add(Path::ProcessVm);
    Pages app(8);
    app.hole(5);
    auto local = pattern(8 * kPage, 9);
    for (const Direction d : {Direction::ToSpace, Direction::FromSpace}) {
        std::vector<Piece> pieces;  // adjacent: one remote range
        for (size_t i = 0; i < 8; ++i) pieces.push_back({local.data() + i * kPage, address(app.p) + i * kPage, kPage});
        REQUIRE(w.copy(d, pieces) == Outcome::Fault);
        CHECK(w.result.failed_piece == 5);
        CHECK(w.result.cookie == 7);
        std::swap(pieces[0], pieces[5]);
        REQUIRE(w.copy(d, pieces) == Outcome::Fault);
        CHECK(w.result.failed_piece == 0);
    }
    CHECK(std::memcmp(app.p, local.data(), 5 * kPage) == 0);
    CHECK(w.counters.get(stats::Counter::payload_faults) == 4);
}

TEST_CASE("a piece that straddles a hole fails, the ones before it are complete") {
    World w;
    w.add(Path::ProcessVm);
    Pages app(3);
    app.hole(1);
    auto local = pattern(2000, 1);
    const std::vector<Piece> pieces{{local.data(), address(app.p) + 100, 50},
                                    {local.data() + 50, address(app.p) + kPage - 10, 20},
                                    {local.data() + 70, address(app.p) + 2 * kPage, 30}};
    REQUIRE(w.copy(Direction::ToSpace, pieces) == Outcome::Fault);
    CHECK(w.result.failed_piece == 1);
    CHECK(std::memcmp(app.p + 100, local.data(), 50) == 0);
}

TEST_CASE("another process is reached, and its end is a fault") {
    Pages app(1);
    int up[2];
    REQUIRE(pipe(up) == 0);
    const pid_t child = fork();
    if (child == 0) {
        std::memset(app.p, 0x5a, kPage);
        (void)!write(up[1], "x", 1);
        for (;;) pause();
    }
    char c;
    REQUIRE(read(up[0], &c, 1) == 1);
    World w;
    w.add(Path::ProcessVm, child);
    std::vector<std::byte> back(kPage);
    REQUIRE(w.copy(Direction::FromSpace, {{back.data(), address(app.p), kPage}}) == Outcome::Done);
    CHECK(back == std::vector<std::byte>(kPage, std::byte{0x5a}));
    CHECK(app.p[0] == std::byte{0});  // ours is another memory
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(w.copy(Direction::FromSpace, {{back.data(), address(app.p), kPage}}) == Outcome::Fault);
    close(up[0]);
    close(up[1]);
}

TEST_CASE("unknown and removed spaces are faults") {
    World w;
    std::byte b{};
    CHECK(w.copy(Direction::FromSpace, {{&b, address(&b), 1}}) == Outcome::Fault);
    w.add(Path::ProcessVm);
    CHECK(w.copy(Direction::FromSpace, {}) == Outcome::Done);
    w.mover.remove_space(1);
    CHECK(w.copy(Direction::FromSpace, {{&b, address(&b), 1}}) == Outcome::Fault);
}

TEST_CASE("probe tells the right memory from wrong ones") {
    const uint8_t cookie[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const uint8_t other[16] = {};
    CHECK(probe_process_vm(getpid(), address(cookie), cookie) == 0);
    CHECK(probe_process_vm(getpid(), address(other), cookie) == ENOENT);
    CHECK(probe_process_vm(getpid(), 16, cookie) == EFAULT);
    CHECK(probe_process_vm(0, address(cookie), cookie) == ESRCH);
}

TEST_CASE("agent moves more than its stage holds, in order, and the last bytes by themselves") {
    World w;
    Agent agent;
    agent.start();
    w.add(Path::Agent, 0, agent.ring);
    CHECK(agent.ring->wanted == 1);
    const size_t n = 3 * abi::kAgentStageBytes + 12345;
    Pages app(n / kPage + 1);
    auto local = pattern(n, 5);
    REQUIRE(w.copy(Direction::ToSpace, {{local.data(), address(app.p), static_cast<uint32_t>(n)}}, 1) ==
            Outcome::Pending);
    Result r = w.wait();
    CHECK((r.cookie == 1 && r.outcome == Outcome::Done));
    CHECK(std::memcmp(app.p, local.data(), n) == 0);
    CHECK(agent.last_length == 8);

    std::vector<std::byte> back(n);
    REQUIRE(w.copy(Direction::FromSpace,
                   {{back.data(), address(app.p), 100},
                    {back.data() + 100, address(app.p) + 100, static_cast<uint32_t>(n - 100)}},
                   2) == Outcome::Pending);
    r = w.wait();
    CHECK((r.cookie == 2 && r.outcome == Outcome::Done));
    CHECK(back == local);
    CHECK(w.counters.get(stats::Counter::payload_agent_bytes) == 2 * n);
    CHECK(w.mover.idle());
}

TEST_CASE("agent: faults name the piece, results come in order, a sleeping agent is woken") {
    World w;
    Agent agent;
    agent.start();
    w.add(Path::Agent, 0, agent.ring);
    Pages app(4);
    auto local = pattern(4 * kPage, 8);
    agent.fault_from = address(app.p) + 2 * kPage;
    agent.fault_to = address(app.p) + 3 * kPage;
    std::vector<Piece> pieces;
    for (size_t i = 0; i < 4; ++i) pieces.push_back({local.data() + i * kPage, address(app.p) + i * kPage, kPage});
    for (uint64_t i = 0; i < 50; ++i) REQUIRE(w.copy(Direction::ToSpace, {pieces[i % 2]}, i) == Outcome::Pending);
    REQUIRE(w.copy(Direction::ToSpace, pieces, 50) == Outcome::Pending);
    for (uint64_t i = 0; i < 50; ++i) {
        const Result r = w.wait();
        REQUIRE(r.cookie == i);
        REQUIRE(r.outcome == Outcome::Done);
    }
    Result r = w.wait();
    CHECK(r.cookie == 50);
    CHECK(r.outcome == Outcome::Fault);
    CHECK(r.failed_piece == 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    alignas(8) uint64_t word = 1;
    REQUIRE(w.mover.atomic(1, false, address(&word), 2, 0, 51, {0}, w.result) == Outcome::Pending);
    r = w.wait();
    CHECK((r.outcome == Outcome::Done && r.original == 1 && word == 3));
}

TEST_CASE("agent that does nothing: given up after the time limit, and again usable when it wakes") {
    World w;
    Agent agent;
    w.add(Path::Agent, 0, agent.ring);
    std::vector<std::byte> local(64, std::byte{1}), app(64);
    for (uint64_t i = 0; i < abi::kAgentJobs; ++i)  // two jobs each: more than the ring holds
        REQUIRE(w.copy(Direction::ToSpace, {{local.data(), address(app.data()), 64}}, i) == Outcome::Pending);
    Result r{};
    CHECK(w.mover.poll({PayloadMover::kJobTimeout - 1}, {&r, 1}) == 0);
    for (uint64_t i = 0; i < abi::kAgentJobs; ++i) {
        REQUIRE(w.mover.poll({PayloadMover::kJobTimeout}, {&r, 1}) == 1);
        REQUIRE((r.cookie == i && r.outcome == Outcome::GivenUp));
    }
    CHECK(w.mover.idle());
    agent.start();
    REQUIRE(w.mover.copy(1, Direction::ToSpace, std::vector<Piece>{{local.data(), address(app.data()), 64}}, 999,
                         {PayloadMover::kJobTimeout}, w.result) == Outcome::Pending);
    r = w.wait({PayloadMover::kJobTimeout + 1});
    CHECK((r.cookie == 999 && r.outcome == Outcome::Done));
}

TEST_CASE("of what was given up the agent does what it has begun, and a fence waits for that only") {
    World w;
    Agent agent;
    w.add(Path::Agent, 0, agent.ring);
    std::vector<std::byte> local(64, std::byte{1}), app(64);
    REQUIRE(w.copy(Direction::ToSpace, {{local.data(), address(app.data()), 64}}, 1) == Outcome::Pending);
    const uint64_t fence = w.mover.fence(1);
    REQUIRE(agent.ring->submitted == 2);  // the last eight bytes are a job of their own
    const bool begun = GENERATE(false, true);
    if (begun) REQUIRE(agent.ring->jobs[0].change_state(0, abi::AgentJobState::Taken));
    Result r{};
    REQUIRE(w.mover.poll({PayloadMover::kJobTimeout}, {&r, 1}) == 1);
    REQUIRE(r.outcome == Outcome::GivenUp);
    CHECK(w.mover.idle());
    CHECK(w.mover.passed(1, fence) == !begun);
    agent.start();
    while (agent.ring->done != 2) std::this_thread::yield();
    CHECK(w.mover.poll({PayloadMover::kJobTimeout + 1}, {&r, 1}) == 0);
    CHECK(w.mover.passed(1, fence));
    CHECK(std::count(app.begin(), app.end(), std::byte{1}) == (begun ? 56 : 0));
}

TEST_CASE("agent that lies about its count is not believed") {
    World w;
    Agent agent;
    w.add(Path::Agent, 0, agent.ring);
    std::vector<std::byte> local(64), app(64);
    REQUIRE(w.copy(Direction::FromSpace, {{local.data(), address(app.data()), 64}}) == Outcome::Pending);
    agent.ring->done = 5;
    Result r{};
    REQUIRE(w.mover.poll({1}, {&r, 1}) == 1);
    CHECK(r.outcome == Outcome::GivenUp);
    REQUIRE(w.copy(Direction::FromSpace, {{local.data(), address(app.data()), 64}}) == Outcome::Pending);
    REQUIRE(w.mover.poll({1}, {&r, 1}) == 1);
    CHECK(r.outcome == Outcome::GivenUp);
}

TEST_CASE("a fence is passed when the jobs before it have ended, whatever comes behind it") {
    World w;
    Agent agent;
    CHECK(w.mover.passed(1, w.mover.fence(1)));
    w.add(Path::Agent, 0, agent.ring);
    CHECK(w.mover.passed(1, w.mover.fence(1)));
    std::vector<std::byte> local(64), app(64);
    const std::vector<Piece> piece{{local.data(), address(app.data()), 64}};
    REQUIRE(w.copy(Direction::FromSpace, piece, 1) == Outcome::Pending);
    const uint64_t fence = w.mover.fence(1);
    CHECK_FALSE(w.mover.passed(1, fence));
    REQUIRE(w.copy(Direction::FromSpace, piece, 2) == Outcome::Pending);
    agent.execute(agent.ring->jobs[0]);
    agent.ring->done = 1;
    Result r{};
    REQUIRE(w.mover.poll({1}, {&r, 1}) == 1);
    CHECK(r.cookie == 1);
    CHECK(w.mover.passed(1, fence));
    CHECK_FALSE(w.mover.passed(1, w.mover.fence(1)));
    agent.ring->done = 77;  // a liar's jobs have all ended
    REQUIRE(w.mover.poll({1}, {&r, 1}) == 1);
    CHECK(w.mover.passed(1, w.mover.fence(1)));
}

TEST_CASE("a space that goes, or whose process has gone, while jobs are out ends them at once") {
    World w;
    Agent agent;
    w.add(Path::Agent, 0, agent.ring);
    std::vector<std::byte> local(64), app(64);
    const std::vector<Piece> piece{{local.data(), address(app.data()), 64}};
    REQUIRE(w.copy(Direction::FromSpace, piece, 3) == Outcome::Pending);
    const uint64_t fence = w.mover.fence(1);
    const bool remove = GENERATE(false, true);
    if (remove)
        w.mover.remove_space(1);
    else
        w.mover.abandon(1);
    CHECK_FALSE(w.mover.idle());
    CHECK(w.mover.passed(1, fence));
    Result r{};
    REQUIRE(w.mover.poll({1}, {&r, 1}) == 1);
    CHECK((r.cookie == 3 && r.outcome == Outcome::GivenUp));
    CHECK(w.mover.idle());
    const uint32_t submitted = agent.ring->submitted;
    CHECK(w.copy(Direction::FromSpace, piece, 4) == Outcome::Fault);
    CHECK(agent.ring->submitted == submitted);
}
