// SPDX-License-Identifier: BSD-3-Clause
// Atomics of PayloadMover by process_vm: what they do, and that those of several shards are atomic to each other.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "payload/atomic_locks.h"
#include "payload/mover.h"

using namespace rocemu;
using namespace rocemu::payload;

namespace {

uint64_t address(const void* p) {
    return reinterpret_cast<uint64_t>(p);
}

SpaceInfo ourselves() {
    return {1, getpid(), Path::ProcessVm, nullptr, nullptr, nullptr};
}

}  // namespace

TEST_CASE("atomics by process_vm") {
    stats::CounterBlock counters;
    PayloadMover mover(counters);
    mover.add_space(ourselves());
    Result result{};
    alignas(8) uint64_t word = 40;
    REQUIRE(mover.atomic(1, false, address(&word), 2, 0, 5, {0}, result) == Outcome::Done);
    CHECK(result.original == 40);
    CHECK(word == 42);
    REQUIRE(mover.atomic(1, true, address(&word), 42, 7, 5, {0}, result) == Outcome::Done);
    CHECK(word == 7);
    REQUIRE(mover.atomic(1, true, address(&word), 42, 9, 5, {0}, result) == Outcome::Done);
    CHECK(result.original == 7);
    CHECK(word == 7);
    CHECK(mover.atomic(1, false, 8, 2, 0, 5, {0}, result) == Outcome::Fault);
}

TEST_CASE("atomics of several shards are atomic to each other", "[9.4.5]") {
    constexpr uint64_t kTimes = 20'000;
    AtomicLocks locks;
    alignas(8) static uint64_t word;
    word = 0;
    const auto shard = [&](const auto& operation) {
        return std::thread([&locks, operation] {
            stats::CounterBlock counters;
            PayloadMover mover(counters, &locks);
            mover.add_space(ourselves());
            for (uint64_t i = 1; i <= kTimes; ++i) operation(mover, i);
        });
    };
    std::atomic<uint64_t> wrong{0};
    const auto add = [&](PayloadMover& mover, uint64_t) {
        Result r{};
        wrong += mover.atomic(1, false, address(&word), 1, 0, 0, {0}, r) != Outcome::Done;
    };
    std::thread adder = shard(add);
    SECTION("fetch and add") {
        shard(add).join();
        adder.join();
        CHECK(word == 2 * kTimes);
    }
    SECTION("ATOMIC WRITE: what was stored stays, but for what is added to it") {
        shard([&](PayloadMover& mover, uint64_t i) {
            Result r{};
            uint64_t value = i << 32;
            const Piece piece{reinterpret_cast<std::byte*>(&value), address(&word), 8};
            wrong += mover.copy(1, Direction::ToSpace, {&piece, 1}, 0, {0}, r) != Outcome::Done;
            wrong += mover.copy(1, Direction::FromSpace, {&piece, 1}, 0, {0}, r) != Outcome::Done;
            wrong += value >> 32 != i;
        }).join();
        adder.join();
    }
    CHECK(wrong == 0);
}
