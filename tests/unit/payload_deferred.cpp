// SPDX-License-Identifier: BSD-3-Clause
// Deferred payload: in the stage until the program has placed it; placed by the daemon before anything else is done in
// that space; what the program has begun is waited for, and never for ever. Here the test is the program.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "payload/mover.h"

using namespace rocemu;
using namespace rocemu::payload;
using abi::DeferredState;
using stats::Counter;

namespace {

struct World {
    explicit World(Path path = Path::ProcessVm) {
        stage = static_cast<abi::ReceiveStage*>(
            mmap(nullptr, sizeof(abi::ReceiveStage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        mover.add_space({1, getpid(), path, ring.get(), stage, &stats});
        for (size_t i = 0; i < local.size(); ++i) local[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
    ~World() { munmap(stage, sizeof *stage); }
    [[nodiscard]] uint64_t va(size_t at) const { return reinterpret_cast<uint64_t>(memory.data()) + at; }
    Piece piece(size_t from, size_t to, uint32_t length) { return {local.data() + from, va(to), length}; }
    bool defer(const std::vector<Piece>& pieces, uint32_t wqe = 0) {
        const std::vector<Origin> origins(pieces.size(), Origin{7, 3, wqe, true});
        return mover.defer(1, pieces, origins);
    }
    Outcome copy(Direction direction, const std::vector<Piece>& pieces, uint64_t cookie = 9, Instant now = {1}) {
        return mover.copy(1, direction, pieces, cookie, now, result);
    }
    [[nodiscard]] bool placed(size_t from, size_t to, size_t length) const {
        return std::memcmp(memory.data() + to, local.data() + from, length) == 0;
    }
    abi::DeferredRecord& record(uint32_t number) { return stage->records[number % abi::kDeferredRecords]; }
    [[nodiscard]] bool is(uint32_t number, DeferredState state) {
        return record(number).state.load() == abi::deferred_word(number, state);
    }
    void set(uint32_t number, DeferredState state) { record(number).state.store(abi::deferred_word(number, state)); }
    // What the provider does.
    void place(uint32_t number) {
        abi::DeferredRecord& r = record(number);
        std::memcpy(reinterpret_cast<void*>(r.va), stage->bytes + r.offset, r.length);
        set(number, DeferredState::Done);
    }
    [[nodiscard]] uint64_t count(Counter c) const { return counters.get(c); }
    stats::CounterBlock counters;
    SpaceStats stats;
    abi::ReceiveStage* stage;
    std::unique_ptr<abi::AgentRing> ring = std::make_unique<abi::AgentRing>();
    PayloadMover mover{counters};
    std::vector<std::byte> local = std::vector<std::byte>(2 << 20), memory = std::vector<std::byte>(2 << 20);
    Result result{};
};

}  // namespace

TEST_CASE("deferred payload waits in the stage") {
    World w;
    CHECK(w.defer({w.piece(0, 100, 1024), w.piece(1024, 1124, 1024), w.piece(5000, 9000, 10)}));
    CHECK(w.stage->published == 2);  // what continues is one record
    CHECK(w.record(0).length == 2048);
    CHECK(w.record(1).qpn == 7);
    CHECK(w.is(0, DeferredState::Pending));
    CHECK_FALSE(w.placed(0, 100, 2048));
    w.place(0);
    CHECK(w.placed(0, 100, 2048));
    w.place(1);
    CHECK(w.count(Counter::payload_deferred_bytes) == 2058);
    CHECK(w.count(Counter::payload_process_vm_calls) == 0);
    CHECK(w.mover.idle());
}

TEST_CASE("nothing overtakes deferred payload") {
    World w;
    CHECK(w.defer({w.piece(0, 0, 4096)}));
    SECTION("a write") {
        CHECK(w.copy(Direction::ToSpace, {w.piece(50000, 10, 16)}) == Outcome::Done);
        CHECK(w.placed(50000, 10, 16));
        CHECK(w.placed(26, 26, 4000));
    }
    SECTION("a read") {
        std::vector<std::byte> got(4096);
        CHECK(w.copy(Direction::FromSpace, {{got.data(), w.va(0), 4096}}) == Outcome::Done);
        CHECK(std::memcmp(got.data(), w.local.data(), 4096) == 0);
    }
    SECTION("an atomic") {
        uint64_t number = 0;
        std::memcpy(&number, w.local.data(), 8);
        CHECK(w.mover.atomic(1, false, w.va(0), 1, 0, 9, {1}, w.result) == Outcome::Done);
        CHECK(w.result.original == number);
    }
    CHECK(w.is(0, DeferredState::Done));
    CHECK(w.count(Counter::payload_deferred_settled_bytes) == 4096);
}

// What is mapped too is reached without the program's help, but not in front of what it still has to place.
TEST_CASE("no mapped copy overtakes deferred payload") {
    const Path path = GENERATE(Path::ProcessVm, Path::Agent);
    World w(path);
    w.mover.map(1, 0x100, w.memory.data(), w.va(0), w.memory.size());
    CHECK(w.defer({w.piece(0, 100, 1000)}));
    Piece later = w.piece(5000, 100, 1000);
    later.key = 0x100;
    CHECK_FALSE(w.mover.place(1, later, false));
    const Outcome outcome = w.copy(Direction::ToSpace, {later});
    if (path == Path::ProcessVm) {
        CHECK(outcome == Outcome::Done);
        CHECK(w.is(0, DeferredState::Done));
        CHECK(w.placed(5000, 100, 1000));
        CHECK(w.count(Counter::payload_mapped_bytes) == 1000);
    } else {
        // The agent's to do: it drains before it takes a job (lib/provider/agent.cpp).
        CHECK(outcome == Outcome::Pending);
        CHECK(w.ring->submitted != 0);
        CHECK_FALSE(w.placed(5000, 100, 1000));
    }
}

TEST_CASE("what the program has begun is waited for") {
    World w;
    CHECK(w.defer({w.piece(0, 0, 64)}));
    CHECK(w.defer({w.piece(64, 4096, 64)}));
    w.set(0, DeferredState::Provider);
    CHECK(w.copy(Direction::ToSpace, {w.piece(1000, 0, 8)}, 21) == Outcome::Pending);
    CHECK(w.is(1, DeferredState::Pending));  // given back
    CHECK(w.mover.atomic(1, false, w.va(8), 1, 0, 22, {1}, w.result) == Outcome::Pending);
    CHECK_FALSE(w.defer({w.piece(0, 0, 64)}));  // would overtake them
    CHECK_FALSE(w.mover.idle());
    const uint64_t fence = w.mover.fence(1);
    CHECK_FALSE(w.mover.passed(1, fence));
    std::array<Result, 4> results;
    SECTION("until it has done it") {
        CHECK(w.mover.poll({2}, results) == 0);
        w.place(0);
        REQUIRE(w.mover.poll({3}, results) == 2);
        CHECK(results[0].cookie == 21);
        CHECK(results[0].outcome == Outcome::Done);
        CHECK(results[1].cookie == 22);
        CHECK(results[1].outcome == Outcome::Done);
        CHECK(w.placed(1000, 0, 8));
        CHECK(w.placed(64, 4096, 64));
    }
    SECTION("but not for ever") {
        REQUIRE(w.mover.poll(Instant{1} + PayloadMover::kJobTimeout, results) == 2);
        CHECK(results[0].outcome == Outcome::GivenUp);
        CHECK(results[1].outcome == Outcome::GivenUp);
    }
    SECTION("nor beyond its end") {
        w.mover.remove_space(1);
        REQUIRE(w.mover.poll({2}, results) == 2);
        CHECK(results[0].outcome == Outcome::GivenUp);
    }
    CHECK(w.mover.idle());
    CHECK(w.mover.passed(1, fence));
}

TEST_CASE("a stage that is full") {
    World w;
    uint32_t n = 0;
    while (w.defer({w.piece(size_t{n} * 60000, size_t{n} * 60000, 60000)})) ++n;
    CHECK(n == abi::kReceiveStageBytes / 60032);
    CHECK(w.count(Counter::payload_deferred_full) == 1);
    // In order: once the first is done there is room again, also across the end of the ring.
    for (uint32_t i = 0; i < 100; ++i) {
        w.place(w.stage->published - n);
        REQUIRE(w.defer({w.piece(i, i * 8, 60000)}));
    }
    CHECK_FALSE(w.defer({w.piece(0, 0, 60000)}));
    CHECK(w.copy(Direction::ToSpace, {w.piece(0, 0, 8)}) == Outcome::Done);
    CHECK(w.defer({w.piece(0, 0, 60000)}));
    w.mover.poll({1}, {});
    for (uint32_t i = 0; i < abi::kDeferredRecords; ++i)
        if (!w.defer({w.piece(0, i, 1)})) break;
    CHECK_FALSE(w.defer({w.piece(0, 0, 1)}));  // the records' turn
    CHECK_FALSE(w.defer({w.piece(0, 0, abi::kReceiveStageBytes + 1)}));
}

TEST_CASE("memory that is not there") {
    World w;
    CHECK(w.defer({w.piece(0, 0, 64)}, 1));
    CHECK(w.defer({{w.local.data(), 4096, 64}}, 2));
    CHECK(w.defer({w.piece(64, 64, 64)}, 3));
    CHECK(w.copy(Direction::ToSpace, {w.piece(0, 5000, 8)}) == Outcome::Done);
    CHECK(w.placed(0, 0, 128));
    CHECK(w.is(1, DeferredState::Fault));
    Origin origin;
    memory::SpaceId space = 0;
    REQUIRE(w.mover.take_deferred_fault(space, origin));
    CHECK(space == 1);
    CHECK(origin == Origin{7, 3, 2, true});
    CHECK_FALSE(w.mover.take_deferred_fault(space, origin));
    // It does not stand in the way, and is forgotten once the program knows.
    CHECK(w.copy(Direction::ToSpace, {w.piece(0, 5000, 8)}) == Outcome::Done);
    w.set(1, DeferredState::FaultTold);
    CHECK(w.defer({w.piece(0, 0, 64)}, 4));
    CHECK(w.mover.take_deferred_fault(space, origin));
}

TEST_CASE("nonsense in the stage hurts nobody else") {
    World w;
    CHECK(w.defer({w.piece(0, 0, 64)}));
    for (const uint32_t word : {0u, ~0u, abi::deferred_word(5, DeferredState::Done), abi::deferred_word(0, DeferredState{7})}) {
        w.record(0).state = word;
        w.record(0).offset = w.record(0).length = ~0u;
        w.stage->published = word;
        CHECK(w.copy(Direction::ToSpace, {w.piece(0, 5000, 8)}) == Outcome::Done);
        CHECK(w.mover.idle());
    }
    while (w.defer({w.piece(0, 0, 60000)})) {
    }
    CHECK(w.copy(Direction::ToSpace, {w.piece(0, 5000, 8)}) == Outcome::Done);
}
