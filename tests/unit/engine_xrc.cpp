// SPDX-License-Identifier: BSD-3-Clause
// XRC on one shard: a packet picks the shared receive queue, receives complete to the queue's own CQ in the process that
// owns it, a queue goes away under a target. IBTA annex A14.
#include <catch2/catch.hpp>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

constexpr uint32_t kSrqSges = 4;
constexpr engine::SessionId kDomain = 77, kOtherDomain = 78;

// One initiator on NIC 0; on NIC 1 a target and the queues of two processes.
struct World {
    World() : sa(w.add_session()), cq_a(w.add_cq(sa)) {
        w.shard.add_xrc_domain(kDomain);
        w.shard.add_xrc_domain(kOtherDomain);
        for (uint32_t i = 0; i < 2; ++i) {
            owners[i] = &w.add_session();
            cqs[i] = &w.add_cq(*owners[i], i == 0 ? 256 : 2);
            keys[i] = w.add_mr(*owners[i], memory[i].data(), memory[i].size());
            create_srq(10 + i, i, kDomain, srqs[i]);
        }
        create_srq(20, 0, kOtherDomain, foreign);
        w.qp_type = QpType::XrcSend;
        initiator = &w.add_qp(sa, cq_a, cq_a, 0, {256, 1, 4, 1, 128});
        engine::QpSetup t;
        t.config.qpn = kTarget;
        t.config.type = QpType::XrcRecv;
        t.config.has_srq = true;
        t.config.caps.max_recv_sge = kSrqSges;
        t.device = 1;
        t.session = kDomain;
        t.slot = 3;
        t.cookie = kTarget;
        w.shard.create_qp(t);
        target.type = QpType::XrcRecv;
        target.device = 1;
        REQUIRE(w.connect_one(*initiator, target, 3, 14, 100) == 0);
        REQUIRE(w.connect_one(target, *initiator, 3, 14, 100) == 0);
        key_src = w.add_mr(sa, src.data(), src.size());
    }
    void create_srq(engine::SrqId id, uint32_t owner, engine::SessionId domain, AppSrq& srq) {
        engine::SrqSetup setup;
        setup.id = id;
        setup.session = owners[owner]->id;
        setup.queue = srq.view();
        setup.max_sge = kSrqSges;
        setup.cookie = 0x5100 + id;
        setup.context = 40 + owner;
        setup.xrcd = domain;
        setup.cq = w.cq_ids.at(cqs[owner]);
        setup.pd = owners[owner]->id;
        w.shard.create_srq(setup);
    }
    void post(uint32_t owner, uint64_t wr_id) {
        srqs[owner].post(wr_id, sge(memory[owner].data(), 16384, keys[owner]));
    }
    void send(uint32_t srqn, uint32_t bytes, WrOpcode op = WrOpcode::Send, uint32_t owner = 0) {
        abi::SqWqe wqe = make_wqe(op, srqn);
        wqe.remote_srqn = srqn;
        wqe.rkey = keys[owner];
        wqe.remote_addr = reinterpret_cast<uintptr_t>(memory[owner].data());
        initiator->post_send(wqe, {sge(src.data(), bytes, key_src)});
    }
    WcStatus sent() {
        abi::Cqe e{};
        REQUIRE(w.wait_cqe(cq_a, e));
        return static_cast<WcStatus>(e.status);
    }
    std::vector<engine::ShardEvent> events() {
        std::array<engine::ShardEvent, 32> found;
        const size_t n = w.shard.poll_events(found);
        return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(n)};
    }

    static constexpr uint32_t kTarget = 0x500;
    EngineWorld w;
    AppSession& sa;
    AppCq& cq_a;
    AppSession* owners[2];
    AppCq* cqs[2];
    AppSrq srqs[2]{{8, kSrqSges}, {8, kSrqSges}}, foreign{8, kSrqSges};
    AppQp* initiator;
    AppQp target{sa, cq_a, cq_a, kTarget, {1, 1, 1, 1, 0}};
    std::vector<uint8_t> src = std::vector<uint8_t>(16384, 7);
    std::vector<uint8_t> memory[2]{std::vector<uint8_t>(16384), std::vector<uint8_t>(16384)};
    uint32_t keys[2]{};
    uint32_t key_src = 0;
};

}  // namespace

TEST_CASE("XRC: the packet picks the queue, and the queue's CQ gets the completion", "[engine][A14]") {
    World t;
    for (uint64_t i = 1; i <= 3; ++i) {
        t.post(0, i);
        t.post(1, 10 + i);
    }
    const uint32_t order[] = {10, 11, 11, 10};
    uint64_t next[] = {1, 11};
    for (const uint32_t srqn : order) {
        const uint32_t owner = srqn - 10;
        t.memory[owner].assign(16384, 0);
        t.send(srqn, 5000);
        abi::Cqe e{};
        REQUIRE(t.w.wait_cqe(*t.cqs[owner], e));
        CHECK(e.status == 0);
        CHECK(e.wr_id == next[owner]++);
        CHECK(e.qpn == World::kTarget);
        CHECK(e.qp_slot == abi::kSrqSlot);
        CHECK(e.byte_len == 5000);
        CHECK(std::memcmp(t.memory[owner].data(), t.src.data(), 5000) == 0);
        CHECK(t.sent() == WcStatus::Success);
    }
    CHECK(t.srqs[0].consumed() == 2);
    CHECK(t.srqs[1].consumed() == 2);
}

TEST_CASE("XRC: an rkey is good with a queue of its own PD only", "[engine][A14]") {
    World t;
    t.send(10, 4096, WrOpcode::RdmaWrite, 0);
    CHECK(t.sent() == WcStatus::Success);
    CHECK(t.memory[0][4095] == 7);
    SECTION("of the other process") { t.send(10, 4096, WrOpcode::RdmaWrite, 1); }
    SECTION("READ of the other process") { t.send(10, 4096, WrOpcode::RdmaRead, 1); }
    CHECK(t.sent() == WcStatus::RemAccessErr);
    CHECK(t.memory[1][0] == 0);
}

TEST_CASE("XRC: a queue of another domain, or none", "[engine][A14]") {
    World t;
    const uint32_t srqn = GENERATE(20u, 999u);
    CAPTURE(srqn);
    t.foreign.post(1, sge(t.memory[0].data(), 4096, t.keys[0]));
    t.send(srqn, 64);
    CHECK(t.sent() == WcStatus::RemInvRdReqErr);
    CHECK(t.foreign.consumed() == 0);
}

TEST_CASE("XRC: an empty queue is an RNR, the others go on", "[engine][A14]") {
    World t;
    t.send(11, 64);
    t.w.turns(500);
    CHECK(t.w.counter(1, stats::Counter::out_of_buffer) >= 1);
    t.post(1, 5);
    abi::Cqe e{};
    REQUIRE(t.w.wait_cqe(*t.cqs[1], e));
    CHECK(e.wr_id == 5);
    CHECK(t.sent() == WcStatus::Success);
}

TEST_CASE("XRC: a queue may go away under a target, also in the middle of a message", "[engine][A14]") {
    World t;
    t.post(0, 1);
    t.post(1, 2);
    t.send(11, 16384);
    const bool middle = GENERATE(false, true);
    if (middle) t.w.run_until([&] { return t.srqs[1].consumed() == 1; });
    abi::Cqe e{};
    const bool early = t.cqs[1]->poll(e);
    t.w.shard.destroy_srq(11);
    t.memory[1].assign(16384, 0);
    const WcStatus status = t.sent();
    CHECK((status == WcStatus::RemInvRdReqErr || (early && status == WcStatus::Success)));
    CHECK(t.srqs[0].consumed() == 0);
    t.w.turns(50);
    CHECK(t.w.shard.destroy_qp(World::kTarget));
}

TEST_CASE("XRC: events go to the domain, an overrun to the owner of the CQ", "[engine][A14]") {
    World t;
    (void)t.events();
    for (uint64_t i = 0; i < 4; ++i) t.post(1, i);
    for (int i = 0; i < 3; ++i) t.send(11, 64);  // its CQ has two entries
    for (int i = 0; i < 3; ++i) CHECK(t.sent() == WcStatus::Success);
    transport::QpAttr a;
    a.state = QpState::Err;
    REQUIRE(t.w.modify(t.target, a, qp_attr_mask::kState) == 0);
    t.w.turns(20);
    bool last = false, overrun = false;
    for (const auto& e : t.events()) {
        if (e.kind != engine::ShardEventKind::Async) continue;
        if (e.async == AsyncEvent::QpLastWqeReached) last |= e.session == kDomain && e.cookie == World::kTarget;
        if (e.async == AsyncEvent::CqErr) overrun |= e.session == t.owners[1]->id && e.object == 41;
    }
    CHECK(last);
    CHECK(overrun);
}
