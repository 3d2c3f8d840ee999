// SPDX-License-Identifier: BSD-3-Clause
// The guarded copy: right for every length, false instead of a signal, and other people's faults stay theirs.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <numeric>
#include <vector>

#include "guard/fault_guard.h"

using namespace rocemu;

namespace {

constexpr size_t kPage = 4096;

// Two pages, the second of which is `protection`.
std::byte* half(int protection) {
    auto* p = static_cast<std::byte*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(p, 0x5a, 2 * kPage);
    mprotect(p + kPage, kPage, protection);
    return p;
}

}  // namespace

namespace {

// Runs `body` in a child in which nothing is installed yet; its wait status.
template <typename Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);
        body();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

void fault() { *reinterpret_cast<volatile char*>(kPage) = 1; }

}  // namespace

TEST_CASE("faults elsewhere go where they went before", "[guard]") {
    int status = in_child([] {
        std::signal(SIGSEGV, +[](int) { _exit(42); });
        if (!guard::install()) _exit(1);
        fault();
    });
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 42));
    status = in_child([] {
        if (!guard::install()) _exit(1);
        fault();
    });
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
    status = in_child([] {
        if (!guard::install()) _exit(1);
        raise(SIGSEGV);
    });
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
}

TEST_CASE("every length arrives, and nothing beside it", "[guard]") {
    std::vector<uint8_t> from(1024), to(1024);
    std::iota(from.begin(), from.end(), uint8_t{1});
    for (size_t n = 0; n <= 600; ++n) {
        std::fill(to.begin(), to.end(), uint8_t{0xee});
        REQUIRE(guard::copy(to.data() + 7, from.data() + n % 13, n));
        REQUIRE(std::memcmp(to.data() + 7, from.data() + n % 13, n) == 0);
        REQUIRE(to[6] == 0xee);
        REQUIRE(to[7 + n] == 0xee);
    }
}

// In a child: the test framework has handlers of its own.
TEST_CASE("memory that is not there is no signal", "[guard]") {
    const int status = in_child([] {
        int step = 0;
        const auto want = [&](bool ok) {
            ++step;
            if (!ok) _exit(step);
        };
        want(guard::install());
        std::vector<std::byte> buffer(2 * kPage);
        std::byte* unreadable = half(PROT_NONE);
        std::byte* read_only = half(PROT_READ);
        for (size_t n : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 200u, 4096u}) {
            want(guard::copy(buffer.data(), unreadable + kPage - n, n));
            want(!guard::copy(buffer.data(), unreadable + kPage - n + 1, n));
            want(!guard::copy(read_only + kPage - n + 1, buffer.data(), n));
        }
        want(!guard::copy(buffer.data(), nullptr, 8));
        // A file that was cut: SIGBUS.
        const int fd = memfd_create("cut", 0);
        want(ftruncate(fd, kPage) == 0);
        void* file = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
        want(guard::copy(buffer.data(), file, kPage));
        want(ftruncate(fd, 0) == 0);
        want(!guard::copy(buffer.data(), file, kPage));
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);  // else: which step was wrong
}
