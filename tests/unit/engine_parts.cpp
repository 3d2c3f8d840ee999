// SPDX-License-Identifier: BSD-3-Clause
// Small parts of the engine by themselves: timing wheel against a sorted list, QPN table against a map, capture ring,
// mailbox and notifier between two threads, ARP answers.
#include <poll.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/fixed_ring.h"
#include "base/timing_wheel.h"
#include "engine/capture_tap.h"
#include "engine/mailbox.h"
#include "engine/qpn_table.h"
#include "net/arp.h"
#include "net/small_frame.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

TEST_CASE("timing wheel: never early, at most one slot late, never lost", "[engine]") {
    for (uint32_t seed = 1; seed <= 8; ++seed) {
        std::mt19937_64 rng(seed);
        Instant now{static_cast<int64_t>(rng() % 1'000'000'000'000)};
        TimingWheel wheel(now);
        struct Node : TimerNode {
            bool expected = false;
        };
        std::vector<Node> nodes(200);
        const Duration spans[] = {10'000, 1'000'000, 300'000'000, 80'000'000'000};
        for (int step = 0; step < 3000; ++step) {
            Node& n = nodes[rng() % nodes.size()];
            if (rng() % 4 == 0) {
                wheel.cancel(n);
                n.expected = false;
            } else {
                wheel.set(n, now + static_cast<Duration>(rng() % static_cast<uint64_t>(spans[rng() % 4])));
                n.expected = true;
            }
            Instant next = kNever;
            for (auto& m : nodes)
                if (m.expected) next = std::min(next, m.when);
            const Instant told = wheel.next_deadline();
            if (next != kNever)
                REQUIRE(told.ns <= next.ns + 2 * 4096);
            else
                REQUIRE(told == kNever);
            now = now + static_cast<Duration>(rng() % static_cast<uint64_t>(spans[rng() % 4] / 10));
            wheel.expire(now, 1000, [&](TimerNode& t) {
                Node& m = static_cast<Node&>(t);
                REQUIRE(m.expected);
                REQUIRE(m.when <= now);
                m.expected = false;
            });
            REQUIRE(std::none_of(nodes.begin(), nodes.end(),
                                 [&](const Node& m) { return m.expected && m.when.ns <= now.ns - 2 * 4096; }));
        }
    }
}

TEST_CASE("timing wheel: next_deadline leads to the timer by sleeping alone", "[engine]") {
    Instant now{12345};
    TimingWheel wheel(now);
    TimerNode n;
    wheel.set(n, now + 5 * kSecond);
    int wakes = 0;
    while (n.armed()) {
        const Instant next = wheel.next_deadline();
        REQUIRE(next > now);
        now = next;
        wheel.expire(now, 10, [](TimerNode&) {});
        REQUIRE(++wakes < 20);
    }
    CHECK(now.ns - (12345 + 5 * kSecond) >= 0);
    CHECK(now.ns - (12345 + 5 * kSecond) <= 2 * 4096);
}

TEST_CASE("QPN table agrees with a map", "[engine]") {
    engine::QpnTable table(16);
    std::map<uint32_t, engine::QpRecord*> model;
    std::mt19937 rng(1);
    for (int i = 0; i < 200000; ++i) {
        const uint32_t qpn = 1 + rng() % 3000 * 256;
        auto* p = reinterpret_cast<engine::QpRecord*>(uintptr_t{16} * (1 + rng() % 1000));
        if (rng() % 3 == 0) {
            table.erase(qpn);
            model.erase(qpn);
        } else {
            table.insert(qpn, p);
            model[qpn] = p;
        }
        const uint32_t look = 1 + rng() % 3000 * 256;
        const auto it = model.find(look);
        REQUIRE(table.find(look) == (it == model.end() ? nullptr : it->second));
        REQUIRE(table.size() == model.size());
    }
}

TEST_CASE("capture ring between two threads: what is not missed arrives whole and in order", "[engine]") {
    engine::CaptureTap tap(16384, 300);
    std::atomic<bool> end{false};
    uint64_t read = 0, next = 0;
    std::thread reader([&] {
        std::vector<std::byte> out(300);
        engine::TapRecord r;
        for (bool last = false;;) {
            if (!tap.read(r, out)) {
                if (last) return;
                last = end.load();
                continue;
            }
            uint64_t number;
            std::memcpy(&number, out.data(), 8);
            if (number < next || r.captured != std::min<uint32_t>(r.length, 300) ||
                r.drop_reason != static_cast<uint16_t>(number % 30) ||
                out[r.captured - 1] != static_cast<std::byte>(r.captured > 8 ? number : number >> 56))
                FAIL_CHECK("record " << number);
            next = number + 1;
            ++read;
        }
    });
    constexpr uint64_t kFrames = 200000;
    std::vector<std::byte> frame(1000);
    std::mt19937 rng(5);
    for (uint64_t i = 0; i < kFrames; ++i) {
        std::fill(frame.begin(), frame.end(), static_cast<std::byte>(i));
        std::memcpy(frame.data(), &i, 8);
        tap.record(engine::TapDirection::Tx, {frame.data(), 9 + rng() % 900}, static_cast<uint16_t>(i % 30));
    }
    end = true;
    reader.join();
    CHECK(read + tap.missed() == kFrames);
    CHECK(read > 0);
}

TEST_CASE("calls run on the shard's thread and finish on control's", "[engine]") {
    struct Call : engine::ShardCall {
        Call(std::atomic<int>& r, int& f, int n) : ran(r), finished(f), again(n) {}
        bool on_shard(engine::Shard&) override {
            where = std::this_thread::get_id();
            ++ran;
            return again-- == 0;
        }
        void on_control() override {
            CHECK(where != std::this_thread::get_id());
            ++finished;
        }
        std::atomic<int>& ran;
        int& finished;
        int again;
        std::thread::id where;
    };
    EngineWorld w;
    std::atomic<int> ran{0};
    int finished = 0;
    std::thread thread([&] { w.shard.run(); });
    for (int i = 0; i < 200; ++i) {
        std::unique_ptr<engine::ShardCall> call = std::make_unique<Call>(ran, finished, i % 3);
        while (!w.shard.submit(call)) std::this_thread::yield();
        if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it sleeps meanwhile
    }
    for (int i = 0; i < 1000 && finished < 200; ++i) {
        pollfd p{w.shard.control_fd(), POLLIN, 0};
        REQUIRE(poll(&p, 1, 2000) == 1);  // never lost
        w.shard.finish_calls();
    }
    CHECK(finished == 200);
    CHECK(w.shard.load().sleeps.load() > 0);
    w.shard.stop();
    thread.join();
}

TEST_CASE("calls that wait for a program, however many, keep no other from being done", "[engine]") {
    struct Stuck : engine::ShardCall {
        explicit Stuck(uint32_t& n) : left(n) { ++left; }
        ~Stuck() override { --left; }
        bool on_shard(engine::Shard&) override { return false; }
        uint32_t& left;
    };
    struct Quick : engine::ShardCall {
        explicit Quick(bool& d) : done(d) {}
        bool on_shard(engine::Shard&) override { return done = true; }
        bool& done;
    };
    EngineWorld w;
    uint32_t stuck = 0;
    bool done = false;
    {
        engine::Notifier notifier;
        engine::Mailbox mailbox(notifier);
        for (size_t i = 0; i < engine::Notifier::kCalls + 40; ++i) {
            REQUIRE(mailbox.push(new Stuck(stuck)));
            mailbox.run(w.shard);
        }
        REQUIRE(mailbox.push(new Quick(done)));
        mailbox.run(w.shard);
        CHECK(done);
        engine::ShardCall* call = nullptr;
        REQUIRE(notifier.take_calls(&call, 1) == 1);
        delete call;
        CHECK(mailbox.busy());
    }
    CHECK(stuck == 0);
}

TEST_CASE("the mailbox is busy until control has been told of every call", "[engine]") {
    struct Call : engine::ShardCall {
        bool on_shard(engine::Shard&) override { return true; }
    };
    EngineWorld w;
    engine::Notifier notifier;
    engine::Mailbox mailbox(notifier);
    size_t submitted = 0;
    for (; submitted < engine::Notifier::kCalls + 40; ++submitted) {
        REQUIRE(mailbox.push(new Call));
        mailbox.run(w.shard);
    }
    CHECK_FALSE(mailbox.arrived());
    CHECK(mailbox.busy());  // they did not all fit into the notifier
    std::array<engine::ShardCall*, 64> calls;
    size_t told = 0;
    for (int round = 0; round < 100 && mailbox.busy(); ++round) {
        const size_t n = notifier.take_calls(calls.data(), calls.size());
        for (size_t i = 0; i < n; ++i) delete calls[i];
        told += n;
        mailbox.run(w.shard);
    }
    CHECK_FALSE(mailbox.busy());
    while (const size_t n = notifier.take_calls(calls.data(), calls.size())) {
        for (size_t i = 0; i < n; ++i) delete calls[i];
        told += n;
    }
    CHECK(told == submitted);
}

TEST_CASE("a sleeping shard is woken by a doorbell", "[engine]") {
    EngineWorld w;
    AppSession& s = w.add_session();
    AppCq& cq = w.add_cq(s);
    AppQp& a = w.add_qp(s, cq, cq, 0);
    AppQp& b = w.add_qp(s, cq, cq, 1);
    REQUIRE(w.connect(a, b) == 0);
    std::thread thread([&] { w.shard.run(); });
    auto& d = *s.doorbells.as<abi::DoorbellBlock>();
    for (int i = 0; i < 20; ++i) {
        for (int k = 0; k < 1000 && d.sleeping.load() == 0; ++k)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        REQUIRE(d.sleeping.load() == 1);
        b.post_recv(1, {});
        a.post_send(make_wqe(WrOpcode::Send, 7));
        if (d.sleeping.load() != 0) {
            const uint64_t one = 1;
            REQUIRE(write(s.wake_fd, &one, sizeof one) == sizeof one);
        }
        const auto start = std::chrono::steady_clock::now();
        abi::Cqe e;
        int got = 0;
        while (got < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(5)) got += cq.poll(e);
        CHECK(got == 2);
    }
    w.shard.stop();
    thread.join();
}

TEST_CASE("VLAN: ARP is answered on the address's own VLAN, with its tag", "[engine][case31]") {
    EngineWorld w;
    const wire::MacAddress mac0{2, 0, 0, 0, 0, 1}, mac1{2, 0, 0, 0, 0, 2};
    const auto address = *wire::parse_gid("10.5.0.2");
    w.shard.set_port_state(1, {mac1, 4200, {{address, true, 5}}});
    const auto ask = [&](uint16_t vlan) {
        const net::SmallFrame frame(net::arp_request(mac0, 0x0a050001, 0x0a050002), vlan);
        w.shard.send_raw(0, frame.bytes());
        w.turns(5);
        std::array<engine::ShardEvent, 8> events;
        const size_t n = w.shard.poll_events(events);
        return std::count_if(events.begin(), events.begin() + static_cast<ptrdiff_t>(n),
                             [](const auto& e) { return e.object == 0; });
    };
    CHECK(ask(5) == 1);
    CHECK(ask(6) == 0);
    CHECK(ask(wire::kNoVlan) == 0);
}

TEST_CASE("ARP: answers for our address, tells what it learns", "[engine]") {
    EngineWorld w;
    const wire::MacAddress mac0{2, 0, 0, 0, 0, 1};
    // NIC 0 asks who has NIC 1's address: NIC 1 answers, both learn.
    const auto request = net::arp_request(mac0, 0x0a000001, 0x0a000002);
    w.shard.send_raw(0, request);
    w.turns(5);
    std::array<engine::ShardEvent, 8> events;
    const size_t n = w.shard.poll_events(events);
    REQUIRE(n == 2);
    CHECK(events[0].kind == engine::ShardEventKind::Neighbour);
    CHECK(events[0].object == 1);
    CHECK(events[0].mac == mac0);
    CHECK(events[1].object == 0);
    CHECK(events[1].mac == wire::MacAddress{2, 0, 0, 0, 0, 2});
    CHECK(std::equal(events[1].address.begin(), events[1].address.end(), EngineWorld::gid_of(1).raw.begin()));
}

TEST_CASE("a fixed ring keeps numbers and places while it wraps, runs empty and is cut") {
    FixedRing<uint32_t> ring(5);  // eight slots
    std::deque<uint32_t> model;
    std::mt19937 random(7);
    uint32_t next = 0;
    for (int step = 0; step < 20000; ++step) {
        const uint32_t what = random() % 8;
        if (what < 4 && !ring.full()) {
            ring.push(next);
            model.push_back(next++);
        } else if (what < 7 && !ring.empty()) {
            const auto n = 1 + random() % ring.size();
            ring.pop(static_cast<uint32_t>(n));
            model.erase(model.begin(), model.begin() + n);
        } else if (what == 7) {
            const uint32_t rest = random() % (ring.size() + 1);
            ring.truncate(ring.head() + rest);
            model.resize(rest);
        }
        REQUIRE(ring.size() == model.size());
        std::set<uint32_t> slots;
        for (uint32_t i = 0; i < model.size(); ++i) {
            REQUIRE(ring.at(ring.head() + i) == model[i]);
            slots.insert(ring.slot_of(ring.head() + i));
        }
        REQUIRE(slots.size() == model.size());
        if (ring.empty()) {
            REQUIRE(ring.slot_of(ring.tail()) == 0);
            continue;
        }
        const auto run = ring.front_run();
        REQUIRE(!run.empty());
        REQUIRE(run.size() <= ring.size());
        for (size_t i = 0; i < run.size(); ++i) REQUIRE(run[i] == model[i]);
    }
}
