// SPDX-License-Identifier: BSD-3-Clause
// Multicast in the engine: every member gets its copy, whatever shard or NIC it lives on, the sender too unless it does
// not want it; who leaves gets none; a copy that cannot be taken is counted. IBTA volume 1, 10.5.2.
#include <catch2/catch.hpp>

#include "engine/groups.h"
#include "engine/placement.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

const wire::Gid kGroup = wire::Gid::from_ipv4(0xef010203);

// A member of the group on one shard, with receives posted.
struct Member {
    Member(EngineWorld& world, uint32_t nic) : Member(world, nic, world.add_session()) {}
    Member(EngineWorld& world, uint32_t nic, AppSession& session)
        : w(world), s(session), cq(w.add_cq(s)), q(make(nic)), key(w.add_mr(s, memory.data(), 8192)) {
        REQUIRE(w.activate(q) == 0);
        ah = w.add_ah(s, EngineWorld::route(nic, kGroup), nic);
    }
    AppQp& make(uint32_t nic) {
        w.qp_type = QpType::Ud;
        return w.add_qp(s, cq, cq, nic);
    }
    void receive() { q.post_recv(1, {sge(&memory[4096], 1024, key)}); }
    void join() { REQUIRE(w.shard.attach_group(q.qpn, kGroup)); }
    void send(uint8_t pattern, uint32_t bytes = 100) {
        std::fill_n(memory.begin(), bytes, pattern);
        abi::SqWqe wqe = make_wqe(WrOpcode::Send);
        wqe.rkey = EngineWorld::kUdQkey;
        wqe.remote_addr = uint64_t{ah} << 32 | engine::kMulticastQpn;
        q.post_send(wqe, {sge(memory.data(), bytes, key)});
    }
    // Receives that have completed since the last call, each with these bytes behind the 40.
    size_t got(uint8_t pattern) {
        size_t n = 0;
        for (abi::Cqe e; cq.poll(e);) {
            CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
            if (!e.is_recv) continue;
            ++n;
            CHECK(e.byte_len == 140);
            CHECK(std::all_of(&memory[4136], &memory[4236], [&](uint8_t c) { return c == pattern; }));
        }
        return n;
    }
    EngineWorld& w;
    AppSession& s;
    std::vector<uint8_t> memory = std::vector<uint8_t>(8192);
    AppCq& cq;
    AppQp& q;
    uint32_t key, ah = 0;
};

engine::ShardConfig second() {
    engine::ShardConfig c;
    c.index = 1;
    return c;
}

// Two shards of the same two NICs, turned by turns.
struct TwoShards {
    EngineWorld first{2, {}, 2}, other{first, second()};
    void turns() {
        for (int i = 0; i < 60; ++i) {
            first.turns(1);
            other.turns(1);
        }
    }
};

}  // namespace

TEST_CASE("members on every shard of both NICs get one copy each, the sender too", "[engine][mcast][10.5.2][case35]") {
    TwoShards t;
    Member a(t.first, 0), b(t.first, 0), c(t.other, 0), d(t.first, 1), e(t.other, 1), outside(t.other, 1);
    for (Member* m : {&a, &b, &c, &d, &e, &outside}) {
        m->receive();
        m->receive();
        if (m != &outside) m->join();
    }
    uint8_t pattern = 0;
    for (Member* sender : {&a, &e}) {
        sender->send(++pattern);
        t.turns();
        for (Member* m : {&a, &b, &c, &d, &e}) CHECK(m->got(pattern) == 1);
        CHECK(outside.got(pattern) == 0);
    }
}

TEST_CASE("a sender that blocks its own messages gets none of them, its neighbours do", "[engine][mcast][case35]") {
    EngineWorld w;
    w.blocks_own_groups = true;
    Member a(w, 0);
    w.blocks_own_groups = false;
    Member b(w, 0), c(w, 1);
    for (Member* m : {&a, &b, &c}) {
        m->receive();
        m->receive();
        m->join();
    }
    a.send(1);
    w.turns(60);
    CHECK(a.got(1) == 0);
    CHECK(b.got(1) == 1);
    CHECK(c.got(1) == 1);
    // The QP of another NIC with the same number is not the sender.
    c.send(2);
    w.turns(60);
    for (Member* m : {&a, &b, &c}) CHECK(m->got(2) == 1);
}

TEST_CASE("who has left or is gone gets nothing, and the last one's group is nobody's", "[engine][mcast][10.5.2]") {
    EngineWorld w;
    Member a(w, 0), b(w, 1), c(w, 1);
    for (Member* m : {&b, &c}) {
        m->receive();
        m->join();
    }
    REQUIRE(w.shard.destroy_qp(b.q.qpn));
    a.send(1);
    w.turns(60);
    CHECK(b.got(1) == 0);
    CHECK(c.got(1) == 1);
    w.shard.detach_group(c.q.qpn, kGroup);
    const uint64_t before = w.counter(1, Counter::rx_wrong_peer);
    a.send(2);
    w.turns(60);
    CHECK(c.got(2) == 0);
    CHECK(w.counter(1, Counter::rx_wrong_peer) == before + 1);
}

TEST_CASE("a group's datagram of a VLAN that the port has no address in is nobody's", "[engine][mcast][case31]") {
    constexpr uint16_t kVid = 100;
    EngineWorld w;
    Member a(w, 0), b(w, 1);
    b.receive();
    b.join();
    auto route = EngineWorld::route(0, kGroup);
    route.has_vlan = true;
    route.vlan_tci = kVid;
    a.ah = w.add_ah(a.s, route, 0);
    const uint64_t before = w.counter(1, Counter::rx_wrong_peer);
    a.send(1);
    w.turns(60);
    CHECK(b.got(1) == 0);
    CHECK(w.counter(1, Counter::rx_wrong_peer) == before + 1);
    w.shard.set_port_state(1, {{2, 0, 0, 0, 0, 2}, 4200, {{EngineWorld::gid_of(1), true, kVid}}});
    a.send(2);
    w.turns(60);
    CHECK(b.got(2) == 1);
}

TEST_CASE("copies for which a slow member has no room are dropped and counted, the others get theirs",
          "[engine][mcast]") {
    EngineWorld w;
    AppSession& slow = w.add_session(payload::Path::Agent);
    Member a(w, 0), x(w, 1, slow), y(w, 1, slow), quick(w, 1);
    for (Member* m : {&x, &y, &quick}) m->join();
    w.agents_run = false;
    constexpr uint32_t kMessages = 200;
    for (uint32_t i = 0; i < kMessages; ++i) {
        for (Member* m : {&x, &y, &quick}) m->receive();
        a.send(7);
        w.turns(4);
        (void)a.got(7);
        CHECK(quick.got(7) == 1);
    }
    const uint64_t dropped = w.counter(1, Counter::responder_backlog_drops);
    CHECK(dropped != 0);
    w.agents_run = true;
    size_t taken = 0;
    w.run_until([&] { return (taken += x.got(7) + y.got(7)), false; }, 2000);
    CHECK(taken + dropped == 2 * kMessages);
    CHECK(taken >= engine::Placement::kHeldPerSession);
}

TEST_CASE("a session has something posted until it is sent", "[engine]") {
    EngineWorld w;
    Member a(w, 0, w.add_session()), b(w, 1, w.add_session());
    b.join();
    b.receive();
    w.turns(10);
    CHECK_FALSE(w.shard.hurry_posted(a.s.id));
    a.send(7);
    CHECK(w.shard.hurry_posted(a.s.id));
    REQUIRE(w.run_until([&] { return !w.shard.hurry_posted(a.s.id); }, 10));
    // Nothing of it is needed any more.
    w.shard.destroy_ah(a.s.id, a.ah);
    w.turns(10);
    CHECK(b.got(7) == 1);
}
