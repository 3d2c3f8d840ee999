// SPDX-License-Identifier: BSD-3-Clause
// The embedded switch: forwarding by MAC and by shard, flooding, back-pressure, wake-up, and impairments that repeat
// with their seed and are all counted.
#include <poll.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <thread>

#include "base/bytes.h"
#include "fabric/switch.h"
#include "support/heap_pool.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

using Mac = std::array<uint8_t, 6>;
constexpr Mac mac_of(uint8_t n) {
    return {2, 0, 0, 0, 0, n};
}

struct Net {
    explicit Net(uint32_t nics = 3, uint32_t shards = 1) : sw(shards) {
        for (uint32_t i = 0; i < nics; ++i) sw.add_nic(mac_of(static_cast<uint8_t>(i)), 4200, pool);
    }
    engine::Frame frame(const Mac& to, uint32_t tag, uint32_t length = 100) {
        engine::Frame f;
        REQUIRE(pool.alloc({&f, 1}));
        std::memset(f.data, 0, length);
        std::memcpy(f.data, to.data(), 6);
        f.data[12] = std::byte{0x88};
        f.data[13] = std::byte{0xb5};  // a local experiment, not RoCE
        std::memcpy(f.data + 20, &tag, 4);
        f.length = length;
        return f;
    }
    // RoCE v2 over IPv4 as far as dispatch looks.
    engine::Frame roce(const Mac& to, uint32_t qpn) {
        engine::Frame f = frame(to, 0);
        std::byte* p = f.data;
        store_be<uint16_t>(p + 12, 0x0800);
        p[14] = std::byte{0x45};
        p[23] = std::byte{17};
        store_be<uint16_t>(p + 36, 4791);
        store_be24(p + 47, qpn);
        return f;
    }
    bool send(uint32_t nic, engine::Frame f, uint32_t shard = 0) {
        if (sw.port(nic, shard).tx_burst(now, {&f, 1}) == 1) return true;
        pool.free({&f, 1});
        return false;
    }
    std::vector<uint32_t> receive(uint32_t nic, uint32_t shard = 0) {
        std::vector<uint32_t> tags;
        engine::Frame f;
        while (sw.port(nic, shard).rx_burst(now, {&f, 1}) == 1) {
            uint32_t tag;
            std::memcpy(&tag, f.data + 20, 4);
            tags.push_back(tag);
            pool.free({&f, 1});
        }
        return tags;
    }
    HeapPool pool;
    Instant now{1000};
    fabric::Switch sw;
};

}  // namespace

TEST_CASE("unicast reaches its NIC only, own MAC comes back", "[fabric]") {
    Net n;
    REQUIRE(n.send(0, n.frame(mac_of(1), 7)));
    REQUIRE(n.send(0, n.frame(mac_of(0), 8)));
    CHECK(n.receive(1) == std::vector<uint32_t>{7});
    CHECK(n.receive(0) == std::vector<uint32_t>{8});
    CHECK(n.receive(2).empty());
    CHECK(n.pool.out() == 0);
}

TEST_CASE("broadcast and unknown addresses reach everybody else", "[fabric]") {
    Net n;
    REQUIRE(n.send(1, n.frame({255, 255, 255, 255, 255, 255}, 3)));
    REQUIRE(n.send(1, n.frame({2, 9, 9, 9, 9, 9}, 4)));
    CHECK(n.receive(0) == std::vector<uint32_t>{3, 4});
    CHECK(n.receive(2) == std::vector<uint32_t>{3, 4});
    CHECK(n.receive(1).empty());
    CHECK(n.pool.out() == 0);
}

TEST_CASE("a full receiver is back-pressure, not loss", "[fabric]") {
    Net n;
    uint32_t sent = 0;
    while (n.send(0, n.frame(mac_of(1), sent))) ++sent;
    CHECK(sent == 1024);
    const auto got = n.receive(1);
    REQUIRE(got.size() == sent);
    for (uint32_t i = 0; i < sent; ++i) CHECK(got[i] == i);
    CHECK(n.send(0, n.frame(mac_of(1), 1)));
    n.receive(1);
    CHECK(n.pool.out() == 0);
}

TEST_CASE("a RoCE frame goes to the shard of its QP's bucket, others to shard 0", "[fabric]") {
    Net n(2, 3);
    for (uint32_t qpn : {0x100u, 0x101u, 0x102u, 0x1FFu}) REQUIRE(n.send(0, n.roce(mac_of(1), qpn), 2));
    REQUIRE(n.send(0, n.frame(mac_of(1), 5), 1));
    CHECK(n.receive(1, 0).size() == 3);  // buckets 0 and 255, and the other frame
    CHECK(n.receive(1, 1).size() == 1);
    CHECK(n.receive(1, 2).size() == 1);
    // Nobody's, but rules of raw packet QPs may want it.
    REQUIRE(n.send(0, n.roce({2, 9, 9, 9, 9, 9}, 0x101), 2));
    CHECK(n.receive(1, 0).size() == 1);
    CHECK(n.receive(1, 1).empty());
}

TEST_CASE("a sleeper is woken exactly when it said that it sleeps", "[fabric]") {
    Net n;
    auto& port = n.sw.port(1, 0);
    pollfd p{port.wake_fd(), POLLIN, 0};
    REQUIRE(n.send(0, n.frame(mac_of(1), 1)));
    CHECK(poll(&p, 1, 0) == 0);
    n.receive(1);
    port.prepare_sleep();
    CHECK(poll(&p, 1, 0) == 0);
    REQUIRE(n.send(0, n.frame(mac_of(1), 1)));
    CHECK(poll(&p, 1, 0) == 1);
    port.end_sleep();
    port.prepare_sleep();
    CHECK(poll(&p, 1, 0) == 0);
    port.end_sleep();
    n.receive(1);
}

TEST_CASE("impairments: the same seed gives the same faults, each is counted", "[fabric]") {
    auto run = [](uint64_t seed) {
        Net n;
        fabric::Impairments bad;
        bad.seed = seed;
        bad.drop_ppm = 20000;
        bad.duplicate_ppm = 30000;
        bad.reorder_ppm = 40000;
        bad.corrupt_ppm = 50000;
        n.sw.set_impairments(0, bad);
        std::vector<uint32_t> got;
        constexpr uint32_t kFrames = 10000;
        for (uint32_t i = 0; i < kFrames; ++i) {
            REQUIRE(n.send(0, n.frame(mac_of(1), i, 24)));
            for (uint32_t t : n.receive(1)) got.push_back(t);
        }
        n.now = n.now + kSecond;
        n.receive(0);  // a look at the sender lets held frames go
        for (uint32_t t : n.receive(1)) got.push_back(t);
        const auto& c = n.sw.port(0, 0).counters();
        CHECK(got.size() == kFrames - c.get(Counter::fault_dropped) + c.get(Counter::fault_duplicated));
        CHECK(n.pool.out() == 0);
        // Of 10 payload bytes, 4 are the tag: a corrupted frame shows there in 40 % of the cases.
        std::map<uint32_t, int> seen;
        for (uint32_t t : got) ++seen[t];
        uint64_t missing = 0, late = 0;
        for (uint32_t i = 0; i < kFrames; ++i) missing += seen.count(i) == 0;
        for (size_t i = 1; i < got.size(); ++i) late += got[i] < got[i - 1];
        CHECK(missing >= c.get(Counter::fault_dropped));
        CHECK(missing <= c.get(Counter::fault_dropped) + c.get(Counter::fault_corrupted));
        CHECK(late > c.get(Counter::fault_reordered) / 2);
        for (const auto& [counter, ppm] : std::map<Counter, uint32_t>{{Counter::fault_dropped, 20000},
                                                                      {Counter::fault_duplicated, 30000},
                                                                      {Counter::fault_reordered, 40000},
                                                                      {Counter::fault_corrupted, 50000}}) {
            const auto expected = ppm * kFrames / 1'000'000;
            CHECK(c.get(counter) > expected * 7 / 10);
            CHECK(c.get(counter) < expected * 13 / 10);
        }
        return got;
    };
    const auto first = run(1);
    CHECK(first == run(1));
    CHECK(first != run(2));
}

TEST_CASE("delay keeps the order and the time", "[fabric]") {
    Net n;
    fabric::Impairments slow;
    slow.delay = 50 * kMicrosecond;
    n.sw.set_impairments(0, slow);
    REQUIRE(n.send(0, n.frame(mac_of(1), 1)));
    n.now = n.now + 10 * kMicrosecond;
    REQUIRE(n.send(0, n.frame(mac_of(1), 2)));
    CHECK(n.receive(1).empty());
    CHECK(n.sw.port(0, 0).next_deadline() == Instant{1000} + 50 * kMicrosecond);
    n.now = n.now + 40 * kMicrosecond;
    n.receive(0);
    CHECK(n.receive(1) == std::vector<uint32_t>{1});
    n.now = n.now + 10 * kMicrosecond;
    n.receive(0);
    CHECK(n.receive(1) == std::vector<uint32_t>{2});
    CHECK(n.sw.port(0, 0).next_deadline() == kNever);
    // Switched off live: the next burst goes straight through.
    n.sw.set_impairments(0, {});
    REQUIRE(n.send(0, n.frame(mac_of(1), 3)));
    CHECK(n.receive(1) == std::vector<uint32_t>{3});
}

TEST_CASE("two shards as two threads: every frame arrives once, in order per sender", "[fabric]") {
    HeapPool pool(4000);
    fabric::Switch sw(2);
    sw.add_nic(mac_of(0), 4200, pool);
    sw.add_nic(mac_of(1), 4200, pool);
    constexpr uint32_t kFrames = 1500;
    std::vector<engine::Frame> frames(2 * kFrames);
    REQUIRE(pool.alloc(frames));
    for (uint32_t i = 0; i < 2 * kFrames; ++i) {
        std::memset(frames[i].data, 0, 60);
        const Mac to = mac_of(1);
        std::memcpy(frames[i].data, to.data(), 6);
        std::memcpy(frames[i].data + 20, &i, 4);
        frames[i].length = 60;
    }
    auto sender = [&](uint32_t shard) {
        for (uint32_t i = 0; i < kFrames;)
            i += static_cast<uint32_t>(sw.port(0, shard).tx_burst({}, {&frames[shard * kFrames + i], 1}));
    };
    std::thread t0(sender, 0), t1(sender, 1);
    uint32_t next[2] = {0, kFrames};
    for (uint32_t got = 0; got < 2 * kFrames;) {
        engine::Frame f[16];
        const size_t n = sw.port(1, 0).rx_burst({}, f);
        for (size_t i = 0; i < n; ++i) {
            uint32_t tag;
            std::memcpy(&tag, f[i].data + 20, 4);
            REQUIRE(tag == next[tag / kFrames]++);
        }
        got += static_cast<uint32_t>(n);
    }
    t0.join();
    t1.join();
}
