// SPDX-License-Identifier: BSD-3-Clause
// PayloadMover where the daemon has the memory mapped too: copied directly, by key; what is not mapped, or not any more,
// goes the other way; a file that was truncated is a fault and nothing else; nothing overtakes the agent.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "payload/mover.h"

using namespace rocemu;
using namespace rocemu::payload;

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 8 * kPage;
constexpr uint32_t kKey = 0x4200;

uint64_t address(const void* p) {
    return reinterpret_cast<uint64_t>(p);
}

// A file mapped twice: as the program has it and as the daemon has it.
struct File {
    File() {
        if (ftruncate(fd, kBytes) != 0) std::abort();
        for (std::byte** p : {&app, &daemon})
            *p = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    }
    ~File() {
        munmap(app, kBytes);
        munmap(daemon, kBytes);
        close(fd);
    }
    int fd = memfd_create("mapped", MFD_CLOEXEC);
    std::byte* app = nullptr;
    std::byte* daemon = nullptr;
};

struct World {
    explicit World(abi::AgentRing* ring = nullptr) {
        mover.add_space({1, getpid(), ring ? Path::Agent : Path::ProcessVm, ring, nullptr, &stats});
        mover.map(1, kKey, file.daemon, address(file.app), kBytes);
        for (size_t i = 0; i < local.size(); ++i) local[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    Outcome copy(Direction direction, const std::vector<Piece>& pieces) {
        return mover.copy(1, direction, pieces, 9, {1}, result);
    }
    [[nodiscard]] Piece piece(size_t from, size_t to, uint32_t length, uint32_t key = kKey) {
        return {local.data() + from, address(file.app) + to, length, key};
    }
    [[nodiscard]] uint64_t count(stats::Counter c) const { return counters.get(c); }
    stats::CounterBlock counters;
    PayloadMover mover{counters};
    SpaceStats stats;
    File file;
    std::vector<std::byte> local = std::vector<std::byte>(kBytes);
    Result result{};
};

}  // namespace

// In a child: the test framework has signal handlers of its own.
TEST_CASE("a truncated file is a fault of its piece") {
    const pid_t child = fork();
    if (child == 0) {
        World w;
        int step = 0;
        const auto want = [&](bool ok) {
            ++step;
            if (!ok) _exit(step);
        };
        want(ftruncate(w.file.fd, 2 * kPage) == 0);
        const std::vector<Piece> pieces{w.piece(0, 0, 100), w.piece(100, 2 * kPage - 50, 50), w.piece(200, 2 * kPage - 8, 64),
                                        w.piece(300, 0, 8)};
        for (const Direction d : {Direction::ToSpace, Direction::FromSpace}) {
            want(w.copy(d, pieces) == Outcome::Fault);
            want(w.result.failed_piece == 2);
        }
        want(w.copy(Direction::ToSpace, {w.piece(0, 5 * kPage, 1)}) == Outcome::Fault);
        want(w.copy(Direction::ToSpace, {w.piece(0, kPage, 1)}) == Outcome::Done);
        want(w.stats.faults == 3);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);  // else: which step was wrong
}

TEST_CASE("mapped pieces are copied directly, both ways") {
    World w;
    CHECK(w.copy(Direction::ToSpace, {w.piece(0, 10, 5000), w.piece(5000, 3 * kPage, 7), w.piece(6000, 4 * kPage, 9)}) ==
          Outcome::Done);
    CHECK(std::memcmp(w.file.app + 10, w.local.data(), 5000) == 0);
    CHECK(std::memcmp(w.file.app + 3 * kPage, w.local.data() + 5000, 7) == 0);
    CHECK(std::memcmp(w.file.app + 4 * kPage, w.local.data() + 6000, 9) == 0);
    CHECK(w.file.app[4 * kPage + 9] == std::byte{0});
    std::memset(w.file.app, 0x77, 100);
    CHECK(w.copy(Direction::FromSpace, {w.piece(0, 0, 100)}) == Outcome::Done);
    CHECK(w.local[99] == std::byte{0x77});
    CHECK(w.count(stats::Counter::payload_mapped_bytes) == 5000 + 7 + 9 + 100);
    CHECK(w.stats.mapped_bytes == 5000 + 7 + 9 + 100);
    CHECK(w.count(stats::Counter::payload_process_vm_calls) == 0);
}

TEST_CASE("one mapped piece, at once") {
    World w;
    REQUIRE(w.mover.place(1, w.piece(0, 10, 5000), false));
    REQUIRE(w.mover.place(1, w.piece(5000, 3 * kPage, 7), true));
    REQUIRE(w.mover.place(1, w.piece(6000, 4 * kPage, 8), true));
    CHECK(std::memcmp(w.file.app + 10, w.local.data(), 5000) == 0);
    CHECK(std::memcmp(w.file.app + 3 * kPage, w.local.data() + 5000, 7) == 0);
    CHECK(std::memcmp(w.file.app + 4 * kPage, w.local.data() + 6000, 8) == 0);
    // Another space, no key, another key, beyond the mapping, unmapped, truncated.
    CHECK_FALSE(w.mover.place(2, w.piece(0, 0, 64), false));
    CHECK_FALSE(w.mover.place(1, w.piece(0, 0, 64, 0), false));
    CHECK_FALSE(w.mover.place(1, w.piece(0, 0, 64, 0x4300), false));
    CHECK_FALSE(w.mover.place(1, w.piece(0, kBytes - 8, 64), false));
    std::array<Result, 4> results;
    CHECK(w.mover.poll({2}, results) == 0);
    CHECK(w.count(stats::Counter::payload_mapped_bytes) == 5000 + 7 + 8);
    CHECK(w.stats.mapped_bytes == 5000 + 7 + 8);
    REQUIRE(ftruncate(w.file.fd, kPage) == 0);
    CHECK_FALSE(w.mover.place(1, w.piece(0, 2 * kPage, 64), false));
    CHECK(w.mover.place(1, w.piece(0, 0, 64), false));
    CHECK(w.stats.faults == 0);  // who copies it then tells
    w.mover.unmap(1, kKey);
    CHECK_FALSE(w.mover.place(1, w.piece(0, 0, 64), false));
    CHECK(w.count(stats::Counter::payload_process_vm_calls) == 0);
}

// What is called reads the file where it lies; if a page of it is gone it is left in the middle, and nothing else happens.
TEST_CASE("one mapped piece, read in place") {
    World w;
    struct Sum {
        uint64_t length, bytes = 0, calls = 0;
    };
    const auto read = [&](const Piece& piece, Sum& sum) {
        return w.mover.read(1, piece, [](void* argument, const std::byte* from) {
            auto& s = *static_cast<Sum*>(argument);
            ++s.calls;
            for (uint64_t i = 0; i < s.length; ++i) s.bytes += std::to_integer<uint64_t>(from[i]);
        }, &sum);
    };
    std::memset(w.file.app, 1, kBytes);
    Sum all{kBytes}, none{64}, beyond{64}, cut{kBytes}, rest{kPage};
    CHECK(read(w.piece(0, 0, kBytes), all));
    CHECK((all.bytes == kBytes && all.calls == 1));
    CHECK_FALSE(read(w.piece(0, 0, 64, 0), none));
    CHECK_FALSE(read(w.piece(0, kBytes - 8, 64), beyond));
    CHECK((none.calls == 0 && beyond.calls == 0));
    REQUIRE(ftruncate(w.file.fd, kPage) == 0);
    for (int i = 0; i < 3; ++i) CHECK_FALSE(read(w.piece(0, 0, kBytes), cut));
    CHECK((cut.calls == 3 && cut.bytes == 3 * kPage));
    CHECK(read(w.piece(0, 0, kPage), rest));
    CHECK(w.copy(Direction::FromSpace, {w.piece(0, 0, kBytes)}) == Outcome::Fault);
    std::array<Result, 4> results;
    (void)w.mover.poll({2}, results);
    CHECK(w.stats.mapped_bytes == kBytes + kPage);
    // What was moved since is counted when the process goes.
    CHECK(w.mover.place(1, w.piece(0, 0, 16), false));
    w.mover.remove_space(1);
    CHECK(w.stats.mapped_bytes == kBytes + kPage + 16);
}

TEST_CASE("what is not mapped goes the other way") {
    World w;
    SECTION("no key") { CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64, 0)}) == Outcome::Done); }
    SECTION("another key") { CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64, 0x4300)}) == Outcome::Done); }
    SECTION("one of several") {
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64), w.piece(64, 64, 64, 0)}) == Outcome::Done);
    }
    SECTION("unmapped meanwhile") {
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64)}) == Outcome::Done);
        const uint64_t before = w.count(stats::Counter::payload_mapped_bytes);
        w.mover.unmap(1, kKey);
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64)}) == Outcome::Done);
        CHECK(w.count(stats::Counter::payload_mapped_bytes) == before);
    }
    SECTION("beyond the mapping") {
        // There may or may not be memory: the daemon's mapping is not what decides.
        w.copy(Direction::FromSpace, {w.piece(0, kBytes - 8, 64)});
        CHECK(w.count(stats::Counter::payload_mapped_bytes) == 0);
        CHECK(w.count(stats::Counter::payload_process_vm_calls) != 0);
        return;
    }
    CHECK(w.count(stats::Counter::payload_process_vm_calls) == 1);
    CHECK(std::memcmp(w.file.app, w.local.data(), 64) == 0);
}

TEST_CASE("nothing overtakes what the agent has not done yet") {
    auto* ring = static_cast<abi::AgentRing*>(
        mmap(nullptr, sizeof(abi::AgentRing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    {
        World w(ring);
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64)}) == Outcome::Done);
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64, 0)}) == Outcome::Pending);
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64)}) == Outcome::Pending);
        CHECK_FALSE(w.mover.place(1, w.piece(0, 0, 64), false));
        // Nor what it has begun when it is given up.
        REQUIRE(ring->jobs[0].change_state(0, abi::AgentJobState::Taken));
        Result r{};
        for (int i = 0; i < 2; ++i) {
            REQUIRE(w.mover.poll({PayloadMover::kJobTimeout + 1}, {&r, 1}) == 1);
            CHECK(r.outcome == Outcome::GivenUp);
        }
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 64)}) == Outcome::Pending);
        CHECK_FALSE(w.mover.place(1, w.piece(0, 0, 64), false));
        CHECK(w.count(stats::Counter::payload_mapped_bytes) == 64);
        w.mover.remove_space(1);
    }
    munmap(ring, sizeof *ring);
}
