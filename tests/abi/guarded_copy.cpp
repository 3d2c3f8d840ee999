// SPDX-License-Identifier: BSD-3-Clause
// The agent's copies: right bytes, and a fault instead of a signal where memory is missing or protected.
#include <cstring>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "provider/guarded_copy.h"

using rocemu::provider::GuardedCopy;

namespace {

constexpr uint64_t kStageOffset = 4096;
constexpr uint32_t kStageBytes = 1 << 16;

struct Stage {
    Stage() : fd(memfd_create("stage", MFD_CLOEXEC)) {
        REQUIRE(ftruncate(fd, kStageOffset + kStageBytes) == 0);
        map = static_cast<std::byte*>(
            mmap(nullptr, kStageOffset + kStageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        REQUIRE(map != MAP_FAILED);
    }
    ~Stage() {
        munmap(map, kStageOffset + kStageBytes);
        close(fd);
    }
    int fd;
    std::byte* map;
    [[nodiscard]] std::byte* bytes() const { return map + kStageOffset; }
};

struct Pages {
    explicit Pages(size_t count) : size(count * 4096) {
        at = static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(at != MAP_FAILED);
    }
    ~Pages() { munmap(at, size); }
    size_t size;
    std::byte* at;
    [[nodiscard]] uint64_t va(size_t offset = 0) const { return reinterpret_cast<uint64_t>(at + offset); }
};

}  // namespace

TEST_CASE("guarded copies move the bytes", "[agent]") {
    const Stage stage;
    const Pages app(16);
    const GuardedCopy copy(stage.fd, kStageOffset);
    for (const uint32_t length : {1u, 7u, 8u, 9u, 64u, 4095u, 4096u, 4097u, 60000u}) {
        for (uint32_t i = 0; i < length; ++i) app.at[3 + i] = static_cast<std::byte>(i * 7 + length);
        REQUIRE(copy.from_memory(app.va(3), 100, length));
        CHECK(std::memcmp(stage.bytes() + 100, app.at + 3, length) == 0);
        std::memset(app.at, 0, app.size);
        REQUIRE(copy.to_memory(app.va(3), 100, length));
        CHECK(std::memcmp(stage.bytes() + 100, app.at + 3, length) == 0);
        CHECK(app.at[2] == std::byte{0});
        CHECK(app.at[3 + length] == std::byte{0});
    }
}

TEST_CASE("vanished and protected memory is a fault, not a signal", "[agent]") {
    const Stage stage;
    const Pages app(4);
    const GuardedCopy copy(stage.fd, kStageOffset);
    REQUIRE(munmap(app.at + 4096, 4096) == 0);
    CHECK_FALSE(copy.from_memory(app.va(4096), 0, 8));
    CHECK_FALSE(copy.from_memory(app.va(4000), 0, 200));  // reaches into the hole
    CHECK_FALSE(copy.to_memory(app.va(4000), 0, 200));
    CHECK_FALSE(copy.to_memory(app.va(4096), 0, 8));
    REQUIRE(mprotect(app.at + 8192, 4096, PROT_READ) == 0);
    CHECK(copy.from_memory(app.va(8192), 0, 8));
    CHECK_FALSE(copy.to_memory(app.va(8192), 0, 8));
    CHECK_FALSE(copy.from_memory(0, 0, 8));
    CHECK_FALSE(copy.from_memory(~uint64_t{0} - 4, 0, 100));

    uint64_t original = 0;
    CHECK_FALSE(GuardedCopy::fetch_add(app.va(4096), 1, &original));
    CHECK_FALSE(GuardedCopy::fetch_add(app.va(8192), 1, &original));
    CHECK_FALSE(GuardedCopy::compare_swap(app.va(3), 0, 1, &original));
}

TEST_CASE("atomics return what they found", "[agent]") {
    const Pages app(1);
    auto* word = reinterpret_cast<uint64_t*>(app.at);
    *word = 40;
    uint64_t original = 0;
    REQUIRE(GuardedCopy::fetch_add(app.va(), 2, &original));
    CHECK(original == 40);
    CHECK(*word == 42);
    REQUIRE(GuardedCopy::compare_swap(app.va(), 41, 1, &original));
    CHECK(original == 42);
    CHECK(*word == 42);
    REQUIRE(GuardedCopy::compare_swap(app.va(), 42, 7, &original));
    CHECK(original == 42);
    CHECK(*word == 7);
}
