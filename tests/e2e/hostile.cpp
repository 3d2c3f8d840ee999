// SPDX-License-Identifier: BSD-3-Clause
// hostile --socket PATH [--processes N] [--seconds S] [--seed X]: processes that speak the shared-memory ABI directly and
// wrongly. Exit code 0: they did what they could; 1: the daemon was not there any more.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

using namespace hostile;

namespace {

struct Options {
    std::string socket;
    int processes = 8, seconds = 10;
    uint64_t seed = 1;
};

struct Counts {
    std::atomic<uint64_t> rounds[kAttacks];
};

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int attack(const Options& o, int process, Counts& counts) {
    using Attack = Outcome (*)(const std::string&, Random&);
    constexpr Attack kTable[kAttacks] = {send_garbage, send_made_up_messages, scribble};
    Random random(o.seed * 1'000'003 + static_cast<uint64_t>(process));
    const double end = now() + o.seconds;
    int missing = 0;
    while (now() < end) {
        const uint32_t which = random.below(kAttacks);
        if (kTable[which](o.socket, random) == Outcome::NoDaemon) {
            // A full backlog looks like this for a moment.
            if (++missing == 100) return 1;
            usleep(20'000);
            continue;
        }
        missing = 0;
        ++counts.rounds[which];
        usleep(random.below(5000));
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options o;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string word = argv[i];
        if (word == "--socket") o.socket = argv[i + 1];
        if (word == "--processes") o.processes = std::atoi(argv[i + 1]);
        if (word == "--seconds") o.seconds = std::atoi(argv[i + 1]);
        if (word == "--seed") o.seed = std::strtoull(argv[i + 1], nullptr, 0);
    }
    if (o.socket.empty() || o.processes < 1) {
        std::fprintf(stderr, "usage: hostile --socket PATH [--processes N] [--seconds S] [--seed X]\n");
        return 2;
    }
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    void* memory = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    auto* counts = new (memory) Counts{};
    for (int i = 0; i < o.processes; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(attack(o, i, *counts));
        if (child < 0) std::perror("hostile: fork");
    }
    int bad = 0, status = 0;
    while (wait(&status) > 0) {
        if (WIFSIGNALED(status)) {
            std::printf("hostile: a process was ended by signal %d\n", WTERMSIG(status));
            ++bad;
        } else if (WEXITSTATUS(status) != 0) {
            std::printf("hostile: a process found no daemon any more\n");
            ++bad;
        }
    }
    for (int i = 0; i < kAttacks; ++i)
        std::printf("hostile: %llu sessions of %s\n", static_cast<unsigned long long>(counts->rounds[i]), kAttackNames[i]);
    return bad == 0 ? 0 : 1;
}
