// SPDX-License-Identifier: BSD-3-Clause
// SharedPort: one port, several shards: frames reach the owner of their QP, what the shards send leaves by the one
// port, and whoever sleeps is woken.
#include <poll.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <deque>

#include "base/bytes.h"
#include "engine/shared_port.h"
#include "support/heap_pool.h"
#include "wire/mac.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

constexpr wire::MacAddress kOwn{2, 0, 0, 0, 0, 1}, kOther{2, 0, 0, 0, 0, 9}, kGroup{1, 0, 0x5e, 1, 2, 3};

struct FakePort final : engine::Port {
    size_t rx_burst(Instant, std::span<engine::Frame> frames) override {
        size_t n = 0;
        for (; n < frames.size() && !incoming.empty(); incoming.pop_front()) frames[n++] = incoming.front();
        return n;
    }
    size_t tx_burst(Instant, std::span<engine::Frame> frames) override {
        const size_t n = std::min(frames.size(), room);
        room -= n;
        sent.insert(sent.end(), frames.begin(), frames.begin() + static_cast<ptrdiff_t>(n));
        return n;
    }
    [[nodiscard]] engine::PortInfo info() const override {
        engine::PortInfo info;
        std::copy(kOwn.begin(), kOwn.end(), info.mac);
        return info;
    }
    std::deque<engine::Frame> incoming;
    std::vector<engine::Frame> sent;
    size_t room = 1000000;
};

engine::Frame roce(HeapPool& pool, uint32_t qpn, const wire::MacAddress& to = kOther) {
    engine::Frame f;
    REQUIRE(pool.alloc({&f, 1}));
    std::memset(f.data, 0, 80);
    std::memcpy(f.data, to.data(), to.size());
    store_be<uint16_t>(f.data + 12, 0x0800);
    f.data[14] = std::byte{0x45};
    f.data[23] = std::byte{17};
    store_be<uint16_t>(f.data + 36, 4791);
    store_be24(f.data + 47, qpn);
    f.length = 80;
    return f;
}

uint32_t qpn_of(const engine::Frame& f) {
    return load_be24(f.data + 47);
}
bool readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}

}  // namespace

TEST_CASE("received frames go to the shard of their QP", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 3);
    for (uint32_t qpn = 0; qpn < 9; ++qpn) real.incoming.push_back(roce(pool, 0x300 + qpn, kOwn));
    std::array<engine::Frame, 16> frames;
    shared.port(1).prepare_sleep();
    REQUIRE(shared.port(0).rx_burst({}, frames) == 3);
    CHECK(readable(shared.port(1).wake_fd()));
    CHECK_FALSE(readable(shared.port(2).wake_fd()));
    for (uint32_t i = 0; i < 3; ++i) CHECK(qpn_of(frames[i]) == 0x300 + 3 * i);
    pool.free({frames.data(), 3});
    for (uint32_t shard : {1u, 2u}) {
        REQUIRE(shared.port(shard).rx_burst({}, frames) == 3);
        for (uint32_t i = 0; i < 3; ++i) CHECK(qpn_of(frames[i]) == 0x300 + 3 * i + shard);
        pool.free({frames.data(), 3});
    }
    CHECK(pool.out() == 0);
}

TEST_CASE("what a shard sends to the port's own address gets to the shard of the QP", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 3);
    wire::MacAddress own = kOwn;
    SECTION("as the port is") {}
    SECTION("as it is named later") { shared.port(0).set_mac(own = wire::MacAddress{2, 0, 0, 0, 0, 5}); }
    for (uint32_t shard : {0u, 1u, 2u}) CHECK(shared.port(shard).info().receives_own_frames);
    std::array<engine::Frame, 16> frames;
    for (uint32_t from : {0u, 1u, 2u})
        for (uint32_t to : {0u, 1u, 2u}) {
            std::array<engine::Frame, 3> sent{roce(pool, 0x300 + to, own), roce(pool, 0x300, kOther), roce(pool, 0x303 + to, own)};
            REQUIRE(shared.port(from).tx_burst({}, sent) == 3);
            // Shard 0 carries it.
            const size_t n = shared.port(0).rx_burst({}, frames);
            CHECK(n == (to == 0 ? 2 : 0));
            if (to != 0) REQUIRE(shared.port(to).rx_burst({}, frames) == 2);
            CHECK(qpn_of(frames[0]) == 0x300 + to);
            CHECK(qpn_of(frames[1]) == 0x303 + to);
            pool.free({frames.data(), 2});
        }
    CHECK(real.sent.size() == 9);
    pool.free(real.sent);
    CHECK(pool.out() == 0);
}

TEST_CASE("what a shard sends to a group gets to the other shards of the port, once, and out", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 3);
    std::array<engine::Frame, 16> frames;
    for (uint32_t from : {0u, 1u, 2u}) {
        std::array<engine::Frame, 2> sent{roce(pool, 1), roce(pool, 0xffffff, kGroup)};
        real.room = 1;  // the second is not taken at first
        const size_t taken = shared.port(from).tx_burst({}, sent);
        REQUIRE(taken == (from == 0 ? 1 : 2));
        std::array<size_t, 3> got{};
        for (int i = 0; i < 3; ++i) {
            if (i == 2) real.room = 1000;
            if (from == 0 && i != 0 && sent[1].data != nullptr && shared.port(0).tx_burst({}, {&sent[1], 1}) == 1)
                sent[1].data = nullptr;
            for (uint32_t to : {0u, 1u, 2u}) {
                const size_t n = shared.port(to).rx_burst({}, frames);
                got[to] += n;
                pool.free({frames.data(), n});
            }
        }
        for (uint32_t to : {0u, 1u, 2u}) CHECK(got[to] == (to == from ? 0 : 1));
        CHECK(real.sent.size() == 2);
        pool.free(real.sent);
        real.sent.clear();
    }
    CHECK(pool.out() == 0);
}

TEST_CASE("frames for other addresses go to shard 0, where the rules for them are", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 2);
    real.incoming.push_back(roce(pool, 1, kOther));
    std::array<engine::Frame, 4> frames;
    REQUIRE(shared.port(0).rx_burst({}, frames) == 1);
    pool.free({frames.data(), 1});
}

TEST_CASE("frames of all shards leave by the one port, in order, also when it is full for a while", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 3);
    real.room = 10;
    for (uint32_t i = 0; i < 100; ++i)
        for (uint32_t shard : {1u, 2u}) {
            engine::Frame f = roce(pool, shard * 1000 + i);
            REQUIRE(shared.port(shard).tx_burst({}, {&f, 1}) == 1);
        }
    std::array<engine::Frame, 16> frames;
    CHECK(shared.port(0).rx_burst({}, frames) == 0);
    CHECK(real.sent.size() == 10);
    CHECK(shared.port(0).next_deadline() < Instant{kMillisecond});
    real.room = 1000;
    for (int i = 0; i < 5; ++i) shared.port(0).rx_burst({}, frames);
    REQUIRE(real.sent.size() == 200);
    uint32_t next[3] = {0, 1000, 2000};
    for (auto& f : real.sent) CHECK(qpn_of(f) == next[qpn_of(f) / 1000]++);
    pool.free(real.sent);
    CHECK(pool.out() == 0);
}

TEST_CASE("shard 0 sleeps, and a frame of another shard wakes it", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 2);
    auto& root = shared.port(0);
    engine::Frame f = roce(pool, 1);
    REQUIRE(shared.port(1).tx_burst({}, {&f, 1}) == 1);
    CHECK_FALSE(readable(root.wake_fd()));  // it did not sleep
    std::array<engine::Frame, 4> frames;
    root.rx_burst({}, frames);
    root.prepare_sleep();
    CHECK_FALSE(readable(root.wake_fd()));
    f = roce(pool, 1);
    REQUIRE(shared.port(1).tx_burst({}, {&f, 1}) == 1);
    CHECK(readable(root.wake_fd()));
    root.end_sleep();
    root.rx_burst({}, frames);
    CHECK(real.sent.size() == 2);
    pool.free(real.sent);
}

TEST_CASE("shard 0 does not sleep while frames of other shards wait in its rings", "[engine]") {
    HeapPool pool;
    FakePort real;
    engine::SharedPort shared(real, pool, 2);
    auto& root = shared.port(0);
    std::array<engine::Frame, 200> many;
    for (auto& f : many) f = roce(pool, 1);
    REQUIRE(shared.port(1).tx_burst({}, many) == many.size());
    std::array<engine::Frame, 4> frames;
    const Instant now{kSecond};
    // As a shard goes to sleep, with nothing received.
    for (int looks = 0; looks < 10 && real.sent.size() < many.size(); ++looks) {
        root.prepare_sleep();
        REQUIRE(root.rx_burst(now, frames) == 0);
        CHECK((real.sent.size() == many.size() || root.next_deadline() <= now));
        root.end_sleep();
    }
    CHECK(real.sent.size() == many.size());
    CHECK(root.next_deadline() > now);
    pool.free(real.sent);
}

TEST_CASE("frames on the way when everything ends go back to the pool", "[engine]") {
    HeapPool pool;
    FakePort real;
    {
        engine::SharedPort shared(real, pool, 2);
        real.room = 0;
        real.incoming.push_back(roce(pool, 1, kOwn));
        engine::Frame f = roce(pool, 1);
        REQUIRE(shared.port(1).tx_burst({}, {&f, 1}) == 1);
        std::array<engine::Frame, 4> frames;
        CHECK(shared.port(0).rx_burst({}, frames) == 0);
        std::array<engine::Frame, 2> own{roce(pool, 2, kOwn), roce(pool, 3, kOwn)};
        CHECK(shared.port(0).tx_burst({}, own) == 2);
        CHECK(pool.out() == 4);
    }
    CHECK(pool.out() == 0);
}
