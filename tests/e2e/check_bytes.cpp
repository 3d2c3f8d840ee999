// SPDX-License-Identifier: BSD-3-Clause
// check_bytes [OPTION...] DEVICE_A DEVICE_B SEED: an ordinary verbs program that connects RC queue pairs between two
// devices, sends random SEND, WRITE and READ messages (with immediates, several SGEs, inline data) both ways at the same
// time, and checks every byte, and that no byte beside them was touched. Exit code 0: all right.
//   --two-processes   each device in a process of its own
//   --undumpable      PR_SET_DUMPABLE 0 first: nobody may look into this process
//   --shared          memory that the daemon can map too
//   --messages N      for each queue pair and direction (300)
//   --qps N           queue pairs (2)
//   --limit SECONDS   gives up, and says where it stands (120)
//   --hold            stays attached until standard input ends, for who wants to look at it
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check_bytes_end.h"

using namespace check_bytes;

namespace {

constexpr uint32_t kMaxQps = 64;

struct Shared {
    Announcement ends[kMaxQps][2];
    std::atomic<uint32_t> failed{0};
    std::atomic<uint32_t> finished{0};
};

struct Options {
    std::string devices[2];
    uint64_t seed = 0;
    uint32_t messages = 300, qps = 2, limit = 120;
    bool two_processes = false, undumpable = false, shared = false, hold = false;
};

double seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Runs the ends of `sides`; returns the bytes it checked.
uint64_t run(const Options& o, Shared& shared, const std::vector<int>& sides) {
    const double deadline = seconds() + o.limit;
    std::vector<std::unique_ptr<Nic>> nics;
    std::vector<std::unique_ptr<End>> ends;
    const auto wait_for_all = [&](uint32_t ready) {
        for (uint32_t q = 0; q < o.qps; ++q)
            for (const Announcement& a : shared.ends[q])
                while (a.ready < ready) {
                    if (shared.failed != 0) throw Failure("the other end failed");
                    if (seconds() > deadline) throw Failure("the other end does not come");
                    usleep(100);
                }
    };
    for (const int side : sides) {
        nics.push_back(std::make_unique<Nic>(o.devices[side]));
        for (uint32_t q = 0; q < o.qps; ++q) {
            Random psn(o.seed * 977 + q * 2 + static_cast<uint32_t>(side));
            // Now and then close to the end of the number space, so that it wraps.
            const uint32_t first = psn.below(2) != 0 ? 0xffff00 + psn.below(256) : psn.below(1 << 24);
            ends.push_back(std::make_unique<End>(*nics.back(), shared.ends[q][side], shared.ends[q][1 - side], first, o.shared));
        }
    }
    wait_for_all(1);
    for (size_t i = 0; i < ends.size(); ++i) {
        const auto q = static_cast<uint32_t>(i % o.qps);
        const int side = sides[i / o.qps];
        const auto plan = [&](int of) {
            return make_plan(o.seed * 1'000'003 + q * 2 + static_cast<uint32_t>(of), o.messages, shared.ends[q][of].max_inline);
        };
        ends[i]->set_plans(plan(side), plan(1 - side));
        ends[i]->connect();
        ends[i]->prepare_first();
    }
    wait_for_all(2);
    for (bool all_done = false; !all_done;) {
        bool any = false;
        all_done = true;
        for (auto& end : ends) {
            any |= end->step();
            all_done &= end->done();
        }
        for (auto& nic : nics) {
            ibv_wc wc[16];
            const int n = ibv_poll_cq(nic->cq, 16, wc);
            if (n < 0) throw Failure("ibv_poll_cq failed");
            for (int i = 0; i < n; ++i)
                for (auto& end : ends)
                    if (end->qpn() == wc[i].qp_num) end->handle(wc[i]);
            any |= n > 0;
        }
        if (any) continue;
        if (shared.failed != 0) throw Failure("the other end failed");
        if (seconds() > deadline) {
            std::string text = "not finished in time:";
            for (auto& end : ends) text += " {" + end->progress() + "}";
            throw Failure(text);
        }
        sched_yield();
    }
    uint64_t bytes = 0;
    for (auto& end : ends) bytes += end->bytes_checked();
    // Nobody leaves while the other end may still need an answer.
    shared.finished += static_cast<uint32_t>(sides.size());
    while (shared.finished < 2 && shared.failed == 0 && seconds() < deadline) usleep(1000);
    if (o.hold) {
        char c;
        while (read(STDIN_FILENO, &c, 1) > 0) {}
    }
    return bytes;
}

int run_and_report(const Options& o, Shared& shared, const std::vector<int>& sides, const char* who) {
    try {
        const uint64_t bytes = run(o, shared, sides);
        std::printf("check_bytes%s: %s %s seed %llu: %u messages each way on %u queue pairs, %llu bytes checked: right\n", who,
                    o.devices[0].c_str(), o.devices[1].c_str(), static_cast<unsigned long long>(o.seed), o.messages, o.qps,
                    static_cast<unsigned long long>(bytes));
        return 0;
    } catch (const std::exception& e) {
        shared.failed = 1;
        std::printf("check_bytes%s: %s %s seed %llu: WRONG: %s\n", who, o.devices[0].c_str(), o.devices[1].c_str(),
                    static_cast<unsigned long long>(o.seed), e.what());
        return 1;
    }
}

bool parse(int argc, char** argv, Options& o) {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto number = [&](uint32_t& out) { out = i + 1 < argc ? static_cast<uint32_t>(std::atol(argv[++i])) : 0; };
        if (word == "--two-processes")
            o.two_processes = true;
        else if (word == "--undumpable")
            o.undumpable = true;
        else if (word == "--hold")
            o.hold = true;
        else if (word == "--shared")
            o.shared = true;
        else if (word == "--messages")
            number(o.messages);
        else if (word == "--qps")
            number(o.qps);
        else if (word == "--limit")
            number(o.limit);
        else
            words.push_back(word);
    }
    if (words.size() != 3 || o.messages == 0 || o.qps == 0 || o.qps > kMaxQps || o.limit == 0) return false;
    o.devices[0] = words[0];
    o.devices[1] = words[1];
    o.seed = std::strtoull(words[2].c_str(), nullptr, 0);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    Options o;
    if (!parse(argc, argv, o)) {
        std::fprintf(stderr, "usage: check_bytes [--two-processes] [--undumpable] [--shared] [--hold] [--messages N] [--qps N] [--limit SECONDS] "
                             "DEVICE_A DEVICE_B SEED\n");
        return 2;
    }
    if (o.undumpable) prctl(PR_SET_DUMPABLE, 0);
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    auto* shared = new (memory) Shared;
    if (!o.two_processes) return run_and_report(o, *shared, {0, 1}, "");
    const pid_t child = fork();
    if (child == 0) {
        const int rc = run_and_report(o, *shared, {1}, " (b)");
        std::fflush(stdout);
        _exit(rc);
    }
    int rc = run_and_report(o, *shared, {0}, " (a)");
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) rc = 1;
    return rc;
}
