// SPDX-License-Identifier: BSD-3-Clause
// verbs_rules DEVICE_A DEVICE_B: an ordinary verbs program that checks what the manual pages promise: errno values, depths,
// bad_wr, flushing, RESET, events, reference counts, memory that goes away, fork. Exit code 0: all as promised.
#include "verbs_rules.h"

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: verbs_rules DEVICE_A DEVICE_B\n");
        return 2;
    }
    rules::Nic a, b;
    if (!a.open(argv[1]) || !b.open(argv[2])) {
        std::printf("WRONG: cannot open %s and %s\n", argv[1], argv[2]);
        return 1;
    }
    using Group = void (*)(rules::Nic&, rules::Nic&);
    for (const Group group : {rules::posting, rules::errors_and_reset, rules::memory, rules::events, rules::lifetimes, rules::extended, rules::capture, rules::limits, rules::xrc, rules::mapped, rules::registered, rules::deferred, rules::pacing, rules::cases, rules::threads, rules::reuse, rules::endings})
        group(a, b);
    rules::forks(argv[1], argv[2]);
    rules::forks_with_receives(argv[1], argv[2]);
    rules::without_memory(argv[1]);
    rules::group = "end";
    a.close();
    b.close();
    std::printf("verbs_rules: %d wrong\n", rules::failures);
    return rules::failures == 0 ? 0 : 1;
}
