// SPDX-License-Identifier: BSD-3-Clause
// Memory that is shared while it is registered, at fork: the child has copies of its own. And where userfaultfd is
// forbidden: nothing happens.
#include <atomic>
#include <cstddef>
#include <thread>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "provider_share.h"

using namespace share_test;

namespace {

// As lib/provider/process.cpp has it.
void set_fork_handlers() {
    static const int once = pthread_atfork([] { share().before_fork(); }, [] { share().in_parent(); }, [] { share().in_child(); });
    REQUIRE(once == 0);
}

// Runs `body` in a child; its exit code, or -1.
template <typename Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// errno of userfaultfd(2) from now on, for this process. False: no filters here.
bool forbid_userfaultfd() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE("a child has its own copy, of what was there at fork", "[share]") {
    NEEDS_USERFAULTFD();
    set_fork_handlers();
    const Memory memory(40), hidden(4);
    const auto r = share().add(memory.va(), memory.bytes(), true, true);
    const auto not_for_children = share().add(hidden.va(), hidden.bytes(), true, true);
    madvise(hidden.base, hidden.bytes(), MADV_DONTFORK);
    mprotect(memory.base + 32 * kPage, 8 * kPage, PROT_READ);
    REQUIRE(r.mapped.bytes == memory.bytes());
    void* daemons = mmap(nullptr, memory.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, r.file.fd, static_cast<off_t>(r.mapped.offset));
    REQUIRE(daemons != MAP_FAILED);
    int gate[2];
    REQUIRE(pipe(gate) == 0);
    for (int round = 0; round < 8; ++round) {
        const auto value = static_cast<uint64_t>(round) + 100;
        for (size_t page = 0; page < 32; ++page) memory.put(page * kPage, value);
        const pid_t child = fork();
        if (child == 0) {
            char go = 0;
            if (read(gate[0], &go, 1) != 1) _exit(1);
            // The parent and the NIC have changed all of it meanwhile.
            for (size_t page = 0; page < 32; ++page)
                if (memory.get(page * kPage) != value) _exit(2);
            if (kind_of(memory.va(), 32 * kPage) != "private" || kind_of(memory.va() + 32 * kPage, 8 * kPage) != "private read-only") _exit(3);
            if (kind_of(hidden.va(), hidden.bytes()) != "") _exit(4);
            memory.put(0, 1);
            // It may register, and have children, itself.
            const auto mine = share().add(memory.va(), 32 * kPage, true, true);
            if (mine.mapped.bytes != 32 * kPage) _exit(5);
            const int grandchild = in_child([&] { return memory.get(0) == 1 && kind_of(memory.va(), 32 * kPage) == "private" ? 0 : 1; });
            if (grandchild != 0) _exit(6);
            share().remove(mine.id);
            _exit(memory.get(0) == 1 && memory.get(kPage) == value ? 0 : 7);
        }
        for (size_t page = 0; page < 32; ++page) memory.put(page * kPage, 0);
        static_cast<char*>(daemons)[100] = 0x33;
        REQUIRE(write(gate[1], "g", 1) == 1);
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        CHECK(memory.get(0) == 0);
        CHECK(memory.base[100] == 0x33);
        CHECK(kind_of(memory.va(), 32 * kPage) == "shared");
    }
    close(gate[0]);
    close(gate[1]);
    munmap(daemons, memory.bytes());
    share().remove(not_for_children.id);
    share().remove(r.id);
    CHECK(blocks_of_file() == 0);
}

TEST_CASE("fork while other threads register", "[share]") {
    NEEDS_USERFAULTFD();
    set_fork_handlers();
    std::atomic<bool> stop{false};
    std::atomic<int> rounds{0};
    std::thread other([&] {
        const Memory memory(24);
        while (!stop) {
            const auto r = share().add(memory.va(), memory.bytes(), true, true);
            memory.put(0, memory.get(0) + 1);
            share().remove(r.id);
            ++rounds;
        }
        CHECK(memory.get(0) == static_cast<uint64_t>(rounds));
    });
    while (rounds == 0) std::this_thread::yield();
    const Memory memory(4);
    for (int i = 0; i < 20; ++i)
        CHECK(in_child([&] {
                  const auto r = share().add(memory.va(), memory.bytes(), true, true);
                  share().remove(r.id);
                  return r.mapped.bytes == memory.bytes() ? 0 : 1;
              }) == 0);
    stop = true;
    other.join();
}

TEST_CASE("where userfaultfd is forbidden memory stays private", "[share]") {
    const Memory memory(8);
    memory.put(0, 4);
    CHECK(in_child([&] {
              if (!forbid_userfaultfd()) return 77;
              Share share;
              const auto r = share.add(memory.va(), memory.bytes(), true, true);
              if (r.error != EPERM || r.mapped.bytes != 0 || r.id == 0) return 1;
              if (kind_of(memory.va(), memory.bytes()) != "private" || memory.get(0) != 4) return 2;
              share.remove(r.id);
              return 0;
          }) == 0);
}
