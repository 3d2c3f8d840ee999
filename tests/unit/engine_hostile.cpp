// SPDX-License-Identifier: BSD-3-Clause
// A client that writes nonsense into its queues and doorbells loses its own work and disturbs nobody.
#include <catch2/catch.hpp>
#include <random>

#include "support/engine_world.h"
#include "support/wire_frames.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

struct World {
    World()
        : hs(w.add_session()),
          hcq(w.add_cq(hs)),
          sa(w.add_session()),
          sb(w.add_session()),
          cq_a(w.add_cq(sa)),
          cq_b(w.add_cq(sb)),
          a(w.add_qp(sa, cq_a, cq_a, 0)),
          b(w.add_qp(sb, cq_b, cq_b, 1)) {
        REQUIRE(w.connect(a, b) == 0);
        key_a = w.add_mr(sa, src.data(), src.size());
        key_b = w.add_mr(sb, dst.data(), dst.size());
    }
    AppQp& hostile() {
        AppQp& q = w.add_qp(hs, hcq, hcq, 0);
        REQUIRE(w.connect_one(q, b, 3, 10, 100) == 0);
        return q;
    }
    // The honest pair still works.
    void honest() {
        for (auto& c : src) c = static_cast<uint8_t>(rng());
        b.post_recv(1, {sge(dst.data(), static_cast<uint32_t>(dst.size()), key_b)});
        a.post_send(make_wqe(WrOpcode::Send), {sge(src.data(), static_cast<uint32_t>(src.size()), key_a)});
        abi::Cqe e;
        REQUIRE(w.wait_cqe(cq_a, e));
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
        REQUIRE(w.wait_cqe(cq_b, e));
        CHECK(src == dst);
    }
    WcStatus first_status(AppQp& q, const abi::SqWqe& wqe, std::vector<abi::WqeSge> sges = {}) {
        q.post_send(wqe, std::move(sges));
        abi::Cqe e;
        REQUIRE(w.wait_cqe(hcq, e));
        CHECK(e.wr_id == wqe.wr_id);
        return static_cast<WcStatus>(e.status);
    }
    std::mt19937 rng{3};
    std::vector<uint8_t> src = std::vector<uint8_t>(50000), dst = std::vector<uint8_t>(50000);
    EngineWorld w;
    AppSession& hs;
    AppCq& hcq;
    AppSession &sa, &sb;
    AppCq &cq_a, &cq_b;
    AppQp &a, &b;
    uint32_t key_a = 0, key_b = 0;
};

}  // namespace

TEST_CASE("wrong WQEs complete with the error of their fault", "[engine][10.8.5][11.4.1.1][case22]") {
    World x;
    auto bad_opcode = make_wqe(WrOpcode::Send, 1);
    bad_opcode.opcode = 200;
    CHECK(x.first_status(x.hostile(), bad_opcode) == WcStatus::LocQpOpErr);

    auto long_inline = make_wqe(WrOpcode::Send, 2);
    long_inline.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Inline);
    long_inline.length = 0xFFFFFFF0;
    CHECK(x.first_status(x.hostile(), long_inline) == WcStatus::LocLenErr);

    auto bad_kind = make_wqe(WrOpcode::Send, 3);
    bad_kind.payload_kind = 77;
    CHECK(x.first_status(x.hostile(), bad_kind) == WcStatus::LocQpOpErr);

    auto inline_read = make_wqe(WrOpcode::RdmaRead, 4);
    inline_read.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Inline);
    CHECK(x.first_status(x.hostile(), inline_read) == WcStatus::LocQpOpErr);

    const uint32_t key = x.w.add_mr(x.hs, x.src.data(), x.src.size());
    CHECK(x.first_status(x.hostile(), make_wqe(WrOpcode::Send, 5),
                         {sge(x.src.data(), 0xFFFFFFFF, key), sge(x.src.data(), 0xFFFFFFFF, key)}) ==
          WcStatus::LocLenErr);
    CHECK(x.first_status(x.hostile(), make_wqe(WrOpcode::Send, 6), {sge(x.src.data(), 100, 0xDEADBE00)}) ==
          WcStatus::LocProtErr);
    CHECK(x.first_status(x.hostile(), make_wqe(WrOpcode::Send, 7), {sge(x.src.data() - 1, 100, key)}) ==
          WcStatus::LocProtErr);
    // Somebody else's key.
    CHECK(x.first_status(x.hostile(), make_wqe(WrOpcode::Send, 8), {sge(x.src.data(), 100, x.key_a)}) ==
          WcStatus::LocProtErr);
    // Registered but not mapped.
    const uint32_t hole = x.w.add_mr(x.hs, reinterpret_cast<void*>(0x10000), 4096);
    CHECK(x.first_status(x.hostile(), make_wqe(WrOpcode::Send, 9),
                         {sge(reinterpret_cast<void*>(0x10000), 100, hole)}) == WcStatus::LocProtErr);
    x.honest();
}

TEST_CASE("more SGEs than the QP has", "[engine]") {
    World x;
    AppQp& q = x.hostile();
    auto wqe = make_wqe(WrOpcode::Send, 1);
    q.post_send(wqe);
    q.sq_slot(0)[offsetof(abi::SqWqe, num_sge)] = std::byte{255};
    abi::Cqe e;
    REQUIRE(x.w.wait_cqe(x.hcq, e));
    CHECK(static_cast<WcStatus>(e.status) == WcStatus::LocQpOpErr);
    x.honest();
}

TEST_CASE("an impossible producer index ends the QP", "[engine]") {
    World x;
    AppQp& q = x.hostile();
    q.sq_header().producer.store(0x7FFFFFFF);
    x.hs.ring(q.slot_number);
    x.w.turns(50);
    transport::QpAttr attr;
    REQUIRE(x.w.shard.query_qp(q.qpn, &attr));
    CHECK(attr.state == QpState::Err);
    std::array<engine::ShardEvent, 8> events;
    REQUIRE(x.w.shard.poll_events(events) >= 1);
    bool fatal = false;
    for (const auto& e : events) fatal |= e.async == AsyncEvent::QpFatal && e.session == x.hs.id;
    CHECK(fatal);
    x.honest();
}

TEST_CASE("all doorbells of all slots at once, for ever", "[engine]") {
    World x;
    auto& d = *x.hs.doorbells.as<abi::DoorbellBlock>();
    for (int round = 0; round < 50; ++round) {
        for (auto& v : d.words) v.store(~uint64_t{0});
        for (auto& v : d.summary) v.store(~uint64_t{0});
        d.top.store(~uint64_t{0});
        x.w.turns(1);
    }
    x.honest();
}

TEST_CASE("random bytes in both queues", "[engine]") {
    World x;
    for (int round = 0; round < 200; ++round) {
        AppQp& q = x.hostile();
        for (size_t i = sizeof(abi::QueueHeader); i < 64 * q.sq_stride; ++i)
            q.sq.p[i] = static_cast<std::byte>(x.rng());
        for (size_t i = sizeof(abi::QueueHeader); i < 64 * q.rq_stride; ++i)
            q.rq.p[i] = static_cast<std::byte>(x.rng());
        q.sq_header().producer.store(x.rng() % 300);
        q.rq_header().producer.store(x.rng() % 300);
        x.hs.ring(q.slot_number);
        x.w.turns(5);
        x.hcq.header().consumer.store(x.rng());
        if (round % 20 == 0) x.honest();
        REQUIRE(x.w.run_until([&] { return x.w.shard.destroy_qp(q.qpn); }));
    }
    x.honest();
}

TEST_CASE("packets of a stranger are dropped with their reason", "[engine][9.6.1.2][A17.4.2]") {
    World x;
    // A QP that claims the same peer but is not it: right QPN, other source address.
    AppQp& q = x.hostile();
    transport::QpAttr attr;
    REQUIRE(x.w.modify(q, attr, qp_attr_mask::kState) == 0);
    q.device = 1;  // wrong source GID and MAC for its NIC
    REQUIRE(x.w.connect_one(q, x.b, 3, 10, 0xFFFFF0) == 0);
    auto wqe = make_wqe(WrOpcode::Send, 1);
    q.post_send(wqe, {}, std::vector<std::byte>(16));
    x.w.turns(100);
    CHECK(x.w.counter(1, stats::Counter::rx_wrong_peer) > 0);
    x.honest();
}

TEST_CASE("an agent that never answers holds up its own process only", "[engine]") {
    World x;
    x.w.agents_run = false;
    AppSession& slow = x.w.add_session(payload::Path::Agent);
    AppCq& cq = x.w.add_cq(slow, 4096);
    std::vector<uint8_t> memory(1 << 20);
    const uint32_t key = x.w.add_mr(slow, memory.data(), memory.size());
    std::vector<AppQp*> qps;
    for (int i = 0; i < 300; ++i) {
        AppQp& q = x.w.add_qp(slow, cq, cq, 0);
        AppQp& peer = x.w.add_qp(slow, cq, cq, 1);
        REQUIRE(x.w.connect(q, peer) == 0);
        qps.push_back(&q);
        auto wqe = make_wqe(WrOpcode::RdmaWrite, 1);
        wqe.remote_addr = reinterpret_cast<uintptr_t>(memory.data());
        wqe.rkey = key;
        if (i % 2 == 0)
            q.post_send(wqe, {sge(memory.data(), 100000, key)});  // gathers hang
        else
            q.post_send(wqe, {}, std::vector<std::byte>(128));  // placements hang
    }
    for (int i = 0; i < 20; ++i) {
        const Instant start = x.w.now;
        x.honest();
        CHECK(x.w.now - start < 20 * kMillisecond);
    }
    // Their jobs end as faults; then the QPs do, and everything can be torn down.
    x.w.turns(6000, kMillisecond);
    abi::Cqe e;
    REQUIRE(cq.poll(e));
    CHECK(e.status != 0);
    x.honest();
    for (AppQp* q : qps) REQUIRE(x.w.run_until([&] { return x.w.shard.destroy_qp(q->qpn); }, 100000, kMillisecond));
}

TEST_CASE("a frame with any bit wrong is dropped and counted, or is the same packet; nothing else is answered",
          "[engine][case2][case3][9.6]") {
    World x;
    const auto key = x.w.add_mr(x.sb, x.dst.data(), x.dst.size());
    x.b.post_recv(1, {sge(x.dst.data(), 64, key)});
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(wire::Opcode::RcSendOnly);
    bth.psn = 0xFFFFF0;
    bth.dest_qp = x.b.qpn;
    bth.ack_req = true;
    const std::vector<std::byte> payload(6, std::byte{7});
    const Frame good = make_frame(EngineWorld::route(0, 1), bth, {}, payload);
    const auto handed_in = [&](const Frame& f) {
        REQUIRE(x.w.shard.send_raw(0, f));
        x.w.turns(4);
    };
    const auto dropped = [&] {
        uint64_t n = 0;
        for (const auto c : {Counter::rx_malformed, Counter::rx_icrc_encapsulated, Counter::rx_no_pkey_match,
                             Counter::rx_unknown_qp, Counter::rx_wrong_peer, Counter::rx_other})
            n += x.w.counter(1, c);
        return n;
    };
    handed_in(good);
    abi::Cqe e;
    REQUIRE(x.cq_b.poll(e));
    size_t same = 0;
    for (size_t bit = 14 * 8; bit < good.size() * 8; ++bit) {
        Frame f = good;
        f[bit / 8] ^= std::byte{1} << bit % 8;
        const uint64_t answers = x.w.counter(1, Counter::tx_packets), drops = dropped();
        handed_in(f);
        const bool answered = x.w.counter(1, Counter::tx_packets) != answers;
        CAPTURE(bit / 8, bit % 8);
        CHECK(answered == (dropped() == drops));  // a duplicate is acknowledged again
        same += answered;
    }
    // The UDP checksum, which is not used; FECN, BECN and the six bits behind them.
    CHECK(same == 16 + 8);
    for (size_t length = 0; length < good.size(); ++length) {
        const uint64_t answers = x.w.counter(1, Counter::tx_packets);
        handed_in({good.begin(), good.begin() + static_cast<ptrdiff_t>(length)});
        CHECK(x.w.counter(1, Counter::tx_packets) == answers);
    }
    CHECK_FALSE(x.cq_b.poll(e));
    x.w.turns(20000);
    x.b.post_recv(2, {sge(x.dst.data(), 64, key)});
    bth.psn = 0xFFFFF1;
    handed_in(make_frame(EngineWorld::route(0, 1), bth, {}, payload));
    REQUIRE(x.cq_b.poll(e));
    CHECK(e.wr_id == 2);
}
