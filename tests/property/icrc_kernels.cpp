// SPDX-License-Identifier: BSD-3-Clause
// Every CRC-32 kernel against a bit-at-a-time implementation that shares no code with them: all lengths 0..9000 at
// several alignments, the fused copy, the mask, shift and combine. The polynomial is IEEE 802.3 3.2.9.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "wire/crc32.h"

using namespace rocemu::wire;

namespace {

uint32_t bitwise(uint32_t crc, std::byte b) {
    crc ^= static_cast<uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    return crc;
}

uint32_t bitwise(uint32_t crc, const std::byte* data, size_t size) {
    for (size_t i = 0; i < size; ++i) crc = bitwise(crc, data[i]);
    return crc;
}

std::vector<std::byte> random_bytes(size_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(size);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    return bytes;
}

constexpr size_t kLongest = 9000;
constexpr std::byte kGuard{0xa5};

}  // namespace

TEST_CASE("check value of CRC-32") {
    const char* digits = "123456789";
    for (const CrcKernel* kernel : crc_kernels()) {
        INFO(kernel->name);
        CHECK(~kernel->update(~0u, reinterpret_cast<const std::byte*>(digits), 9) == 0xcbf43926);
    }
}

TEST_CASE("each kernel equals the bitwise CRC for every length") {
    constexpr uint32_t kStart = 0x12345678;
    for (const size_t alignment : {0, 1, 7, 12}) {
        const auto data = random_bytes(kLongest + alignment, static_cast<uint32_t>(alignment) + 1);
        const std::byte* p = data.data() + alignment;
        std::vector<uint32_t> expected{kStart};
        for (size_t i = 0; i < kLongest; ++i) expected.push_back(bitwise(expected.back(), p[i]));
        for (const CrcKernel* kernel : crc_kernels()) {
            size_t wrong = 0;
            for (size_t size = 0; size <= kLongest; ++size) wrong += kernel->update(kStart, p, size) != expected[size];
            INFO(kernel->name << " alignment " << alignment);
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("the fused copy sums and copies exactly the range") {
    const auto data = random_bytes(kLongest + 16, 99);
    for (const CrcKernel* kernel : crc_kernels()) {
        size_t wrong = 0;
        std::vector<std::byte> dst(kLongest + 64, kGuard);
        for (size_t size = 0; size <= kLongest; size += size < 600 ? 1 : 61) {
            const size_t from = size % 13, to = 16 + size % 11;
            const uint32_t crc = kernel->copy(7, dst.data() + to, data.data() + from, size);
            wrong += crc != kernel->update(7, data.data() + from, size);
            wrong +=
                !std::equal(dst.begin() + static_cast<ptrdiff_t>(to), dst.begin() + static_cast<ptrdiff_t>(to + size),
                            data.begin() + static_cast<ptrdiff_t>(from));
            wrong += dst[to - 1] != kGuard || dst[to + size] != kGuard;
            std::fill(dst.begin(), dst.begin() + static_cast<ptrdiff_t>(to + size), kGuard);
        }
        INFO(kernel->name);
        CHECK(wrong == 0);
    }
}

TEST_CASE("the masked update sums data | mask") {
    for (const CrcKernel* kernel : crc_kernels()) {
        size_t wrong = 0;
        for (size_t size = 0; size <= 300; ++size) {
            // Exactly sized buffers: the sanitizer build sees a read past the end.
            const auto data = random_bytes(size, static_cast<uint32_t>(size));
            const auto mask = random_bytes(size, static_cast<uint32_t>(size) + 1000);
            uint32_t expected = ~0u;
            for (size_t i = 0; i < size; ++i) expected = bitwise(expected, data[i] | mask[i]);
            wrong += kernel->update_masked(~0u, data.data(), mask.data(), size) != expected;
        }
        INFO(kernel->name);
        CHECK(wrong == 0);
    }
}

TEST_CASE("a masked head and its body in one equal the two in turn") {
    for (const CrcKernel* kernel : crc_kernels()) {
        size_t wrong = 0;
        for (const size_t head : {0, 1, 8, 15, 16, 17, 31, 32, 40, 44, 52, 56, 60, 76, 100, 256}) {
            for (size_t size = 0; size <= 4500; size += size < 600 ? 1 : 29) {
                // Exactly sized buffers, as above.
                const auto data = random_bytes(head, static_cast<uint32_t>(head));
                const auto mask = random_bytes(head, static_cast<uint32_t>(head) + 1000);
                const size_t from = size % 5, to = size % 3;
                const auto body = random_bytes(from + size, static_cast<uint32_t>(size));
                std::vector<std::byte> dst(to + size + 1, kGuard);
                const uint32_t state = kernel->update_masked(7, data.data(), mask.data(), head);
                const uint32_t expected = kernel->update(state, body.data() + from, size);
                const auto headed = [&](std::byte* out) {
                    return kernel->headed(7, data.data(), mask.data(), head, out, body.data() + from, size);
                };
                wrong += headed(nullptr) != expected;
                wrong += headed(dst.data() + to) != expected;
                wrong += !std::equal(body.begin() + static_cast<ptrdiff_t>(from), body.end(),
                                     dst.begin() + static_cast<ptrdiff_t>(to));
                wrong += dst.back() != kGuard || (to != 0 && dst[to - 1] != kGuard);
            }
        }
        INFO(kernel->name);
        CHECK(wrong == 0);
    }
}

TEST_CASE("no kernel reads outside of its range") {
    for (const CrcKernel* kernel : crc_kernels()) {
        size_t wrong = 0;
        for (size_t size = 0; size <= 600; ++size) {
            const auto data = random_bytes(size, static_cast<uint32_t>(size));
            std::vector<std::byte> dst(size);
            wrong += kernel->update(3, data.data(), size) != bitwise(3, data.data(), size);
            wrong += kernel->copy(3, dst.data(), data.data(), size) != bitwise(3, data.data(), size);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("shift and combine equal the CRC of the whole") {
    const auto data = random_bytes(kLongest, 5);
    std::mt19937 random(6);
    const char* const before = active_crc_kernel().name;
    for (const CrcKernel* kernel : crc_kernels()) {
        REQUIRE(select_crc_kernel(kernel->name));
        size_t wrong = 0;
        for (int i = 0; i < 2000; ++i) {
            const size_t size = random() % (kLongest + 1), cut = random() % (size + 1);
            const uint32_t a = crc32_update(~0u, data.data(), cut);
            const uint32_t b = crc32_update(0, data.data() + cut, size - cut);
            wrong += crc32_combine(a, b, size - cut) != crc32_update(~0u, data.data(), size);
        }
        INFO(kernel->name);
        CHECK(wrong == 0);
        const std::vector<std::byte> zeros(70000);
        for (const size_t size :
             {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{65535}, size_t{65536}, zeros.size()})
            CHECK(crc32_shift(0xdeadbeef, size) == crc32_update(0xdeadbeef, zeros.data(), size));
    }
    REQUIRE(select_crc_kernel(before));
    CHECK_FALSE(select_crc_kernel("no such kernel"));
}
