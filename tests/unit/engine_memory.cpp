// SPDX-License-Identifier: BSD-3-Clause
// HugeMemory, where QPs lie: blocks never overlap, holes grow together again, empty chunks go back; and QPs in it that
// come and go leave nothing behind.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "engine/huge_memory.h"
#include "transport/qp.h"

using namespace rocemu;
using engine::HugeMemory;

namespace {

struct Block {
    std::byte* at;
    size_t bytes;
    std::byte mark;
};

Block take(HugeMemory& memory, size_t bytes, size_t alignment, uint32_t mark) {
    const Block b{static_cast<std::byte*>(memory.allocate(bytes, alignment)), bytes, static_cast<std::byte>(mark)};
    REQUIRE(reinterpret_cast<uintptr_t>(b.at) % HugeMemory::kGrain == 0);
    std::memset(b.at, static_cast<int>(b.mark), b.bytes);
    return b;
}

void give(HugeMemory& memory, const Block& b, size_t alignment) {
    // Nobody else has written to it.
    REQUIRE(std::all_of(b.at, b.at + b.bytes, [&](std::byte v) { return v == b.mark; }));
    memory.deallocate(b.at, b.bytes, alignment);
}

}  // namespace

TEST_CASE("memory of QPs: blocks that come and go at random never overlap", "[engine]") {
    HugeMemory memory;
    std::mt19937 rng(7);
    std::vector<Block> blocks;
    for (uint32_t step = 0; step < 4000; ++step) {
        if (blocks.empty() || (blocks.size() < 150 && rng() % 5 < 3)) {
            blocks.push_back(take(memory, rng() % 8 == 0 ? rng() % 300'000 : rng() % 20'000 + 1, 8, rng()));
        } else {
            std::swap(blocks[rng() % blocks.size()], blocks.back());
            give(memory, blocks.back(), 8);
            blocks.pop_back();
        }
        REQUIRE(memory.used() <= memory.mapped());
    }
    CHECK(memory.used() != 0);
    for (const Block& b : blocks) give(memory, b, 8);
    CHECK(memory.used() == 0);
}

TEST_CASE("memory of QPs: what was freed serves the next, larger block", "[engine]") {
    HugeMemory memory;
    constexpr size_t kPart = HugeMemory::kHugePage / 4;
    std::vector<Block> parts;
    for (uint32_t i = 0; i < 4; ++i) parts.push_back(take(memory, kPart, 8, i));
    CHECK(memory.mapped() == HugeMemory::kHugePage);
    for (const uint32_t i : {2u, 0u, 3u, 1u}) give(memory, parts[i], 8);  // the last one joins both sides
    const Block whole = take(memory, HugeMemory::kHugePage, 64, 9);
    CHECK(memory.mapped() == HugeMemory::kHugePage);
    give(memory, whole, 64);
}

TEST_CASE("memory of QPs: empty chunks go back to the kernel, but for one", "[engine]") {
    HugeMemory memory;
    std::vector<Block> blocks;
    for (uint32_t i = 0; i < 64; ++i) blocks.push_back(take(memory, HugeMemory::kHugePage / 2, 8, i));
    CHECK(memory.mapped() == 32 * HugeMemory::kHugePage);
    const Block kept = take(memory, 1000, 8, 5);  // holds its chunk, no more
    for (const Block& b : blocks) give(memory, b, 8);
    CHECK(memory.mapped() <= 2 * HugeMemory::kHugePage);
    give(memory, kept, 8);
    CHECK(memory.mapped() <= 2 * HugeMemory::kHugePage);
}

TEST_CASE("memory of QPs: one that comes and goes does not bring a chunk with it each time", "[engine]") {
    HugeMemory memory;
    // But for 64 KiB the chunk is taken.
    const Block most = take(memory, HugeMemory::kHugePage - 65536, 8, 1);
    give(memory, take(memory, 100'000, 8, 2), 8);
    const size_t mapped = memory.mapped();
    CHECK(mapped == 2 * HugeMemory::kHugePage);
    for (uint32_t i = 0; i < 3; ++i) {
        const Block b = take(memory, 100'000, 8, i);
        CHECK(memory.mapped() == mapped);
        give(memory, b, 8);
        CHECK(memory.mapped() == mapped);
    }
    give(memory, most, 8);
    CHECK(memory.mapped() == HugeMemory::kHugePage);
}

TEST_CASE("memory of QPs: alignment beyond a cache line is refused", "[engine]") {
    HugeMemory memory;
    CHECK_THROWS_AS(memory.allocate(64, 128), std::bad_alloc);
    CHECK(memory.used() == 0);
}

TEST_CASE("memory of QPs: a thousand of every type leave nothing behind", "[engine]") {
    HugeMemory memory;
    memory::KeyTable keys;
    stats::CounterBlock counters;
    std::mt19937 rng(3);
    const auto up_to = [&](uint32_t most) { return static_cast<uint32_t>(rng() % most) + 1; };
    constexpr QpType kTypes[] = {QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket, QpType::XrcSend, QpType::XrcRecv};
    std::vector<std::unique_ptr<transport::Qp>> qps;
    for (uint32_t i = 0; i < 1000; ++i) {
        transport::QpConfig config;
        config.qpn = 0x100 + i;
        config.type = kTypes[i % std::size(kTypes)];
        config.caps = {up_to(64), up_to(64), up_to(16), up_to(16), 64};
        qps.push_back(std::make_unique<transport::Qp>(config, transport::Environment{keys, counters, &memory}));
        if (i % 3 == 0) qps.erase(qps.begin() + static_cast<ptrdiff_t>(rng() % qps.size()));
    }
    CHECK(memory.used() > qps.size() * 20'000);
    qps.clear();
    CHECK(memory.used() == 0);
}
