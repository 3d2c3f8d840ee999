// SPDX-License-Identifier: BSD-3-Clause
// Neighbours between the wire, control and the shards: a neighbour that moves takes its connections along, and one that
// moves all the time, or talks all the time, keeps nobody else from being served.
#include <catch2/catch.hpp>

#include "control/resolver.h"
#include "engine/notifier.h"
#include "net/arp.h"
#include "net/small_frame.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;
using control::EventLoop;
using stats::Counter;

namespace {

const wire::Gid kPeer = wire::Gid::from_ipv4(0x0a000009);  // no NIC has it
constexpr wire::MacAddress kNobody{2, 0, 0, 0, 0, 0x55}, kSecondNic{2, 0, 0, 0, 0, 2};

// A resolver for the first of two NICs, turned by the test.
struct World {
    World() {
        control::DeviceInit init;
        init.name = "nic0";
        init.addresses = {"10.0.0.1/24"};
        init.info.mtu = 4200;
        init.info.mac[0] = 2;
        init.info.mac[5] = 1;
        devices.push_back(std::make_unique<control::Device>(0, init));
    }
    void turns() {
        for (int i = 0; i < 10; ++i) {
            engine.turns(10);
            shards.poll();
        }
    }
    void resolve() {
        resolver.resolve(*devices[0], kPeer, [this](int error, const wire::MacAddress& mac) {
            answer = error;
            found = mac;
        });
        turns();
    }
    void learn(const wire::MacAddress& mac) { resolver.learn(0, kPeer, mac, EventLoop::now()); }

    EngineWorld engine;
    EventLoop loop;
    std::vector<std::unique_ptr<control::Device>> devices;
    std::function<void(const engine::ShardEvent&)> on_event = [](const engine::ShardEvent&) {};
    control::ShardSet shards{loop, {&engine.shard}, [this](const engine::ShardEvent& e) { on_event(e); },
                             [](const engine::ReceivedMad&) {}};
    control::Resolver resolver{devices, shards};
    int answer = -1;
    wire::MacAddress found{};
};

// A datagram QP of the first NIC with an address handle for kPeer, made when the peer was where nobody is.
struct Sender {
    explicit Sender(World& world) : w(world.engine), cq(w.add_cq(session)), q(make()), key(w.add_mr(session, memory.data(), 64)) {
        REQUIRE(w.activate(q) == 0);
        auto route = EngineWorld::route(0, 1);
        route.dst_mac = kNobody;
        route.dst_gid = kPeer;
        ah = w.add_ah(session, route, 0);
    }
    AppQp& make() {
        w.qp_type = QpType::Ud;
        return w.add_qp(session, cq, cq, 0);
    }
    // Whether the second NIC sees what is sent.
    bool reaches_second_nic() {
        const uint64_t before = w.counter(1, Counter::rx_unknown_qp);
        abi::SqWqe wqe = make_wqe(WrOpcode::Send);
        wqe.rkey = EngineWorld::kUdQkey;
        wqe.remote_addr = uint64_t{ah} << 32 | 0x777;
        q.post_send(wqe, {sge(memory.data(), 16, key)});
        w.turns(60);
        return w.counter(1, Counter::rx_unknown_qp) == before + 1;
    }
    EngineWorld& w;
    AppSession& session = w.add_session();
    std::vector<uint8_t> memory = std::vector<uint8_t>(64);
    AppCq& cq;
    AppQp& q;
    uint32_t key, ah = 0;
};

}  // namespace

TEST_CASE("a neighbour that moves all the time is one walk at a time, and the last move counts", "[control][net]") {
    World w;
    Sender sender(w);
    w.resolve();
    w.learn(kNobody);
    CHECK((w.answer == 0 && w.found == kNobody));
    w.turns();
    REQUIRE(w.shards.in_flight() == 0);
    for (int i = 0; i < 1000; ++i) {
        w.learn(i % 2 != 0 ? kSecondNic : kNobody);
        if (i % 100 == 0) w.resolver.tell_moves();
    }
    CHECK(w.shards.in_flight() <= w.shards.size());
    w.turns();
    w.resolver.tell_moves();
    w.turns();
    CHECK(w.shards.in_flight() == 0);
    CHECK(sender.reaches_second_nic());
}

TEST_CASE("a neighbour that moved while nobody looked takes its connections along", "[control][net]") {
    using Table = net::NeighbourTable;
    World w;
    Sender sender(w);
    w.resolve();
    w.learn(kNobody);
    Instant now = EventLoop::now() + Table::kReachable;
    w.resolver.tick(now);
    w.resolve();
    for (uint32_t i = 0; i <= Table::kTries; ++i, now = now + Table::kRetry) w.resolver.tick(now);
    REQUIRE(w.devices[0]->neighbours().state_of(kPeer) == Table::State::Failed);
    w.learn(kSecondNic);
    w.resolver.tell_moves();
    w.turns();
    CHECK(sender.reaches_second_nic());
}

TEST_CASE("a shard that always has more to tell is heard for a bounded time, and again", "[control]") {
    World w;
    size_t heard = 0, talk = 20'000;
    const net::SmallFrame arp(net::arp_request(kSecondNic, kPeer.ipv4(), 0x0a000001), wire::kNoVlan);
    const auto say = [&] {
        w.engine.shard.send_raw(1, arp.bytes());
        w.engine.turns(4);
    };
    w.on_event = [&](const engine::ShardEvent&) {
        if (++heard < talk) say();
    };
    for (int i = 0; i < 64; ++i) say();
    w.shards.poll();
    CHECK(heard >= 64);
    CHECK(heard <= engine::Notifier::kEvents);
    // The rest makes the descriptor readable, by which the event loop comes back.
    talk = 0;
    const size_t before = heard;
    w.engine.turns(10);
    w.loop.turn(0);
    CHECK(heard > before);
}
