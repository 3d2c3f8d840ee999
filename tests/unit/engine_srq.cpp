// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues of one shard: WQEs go to whichever QP needs one, none is held back by a QP that does not, the
// limit event, a new size, nonsense in the producer index. IBTA volume 1, 10.2.9.
#include <catch2/catch.hpp>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

constexpr uint32_t kSges = 4, kEntries = 8;

// Two senders on NIC 0, two receivers on NIC 1 that share a queue.
struct World {
    World() : sa(w.add_session()), sb(w.add_session()), cq_a(w.add_cq(sa)), cq_b(w.add_cq(sb)), srq(w.add_srq(sb, kEntries, kSges)) {
        for (int i = 0; i < 2; ++i) {
            senders[i] = &w.add_qp(sa, cq_a, cq_a, 0);
            receivers[i] = &w.add_qp(sb, cq_b, cq_b, 1, {16, 16, 4, kSges, 128}, srq.id);
            REQUIRE(w.connect(*senders[i], *receivers[i], 3, 14) == 0);
        }
        key_src = w.add_mr(sa, src.data(), src.size());
        key_dst = w.add_mr(sb, dst.data(), dst.size());
    }
    void post(uint64_t wr_id, uint32_t bytes = 4096) { srq.post(wr_id, sge(dst.data(), bytes, key_dst)); }
    void send(int who, uint32_t bytes) {
        senders[who]->post_send(make_wqe(WrOpcode::Send), {sge(src.data(), bytes, key_src)});
    }
    const abi::Cqe& received() {
        REQUIRE(w.wait_cqe(cq_b, cqe));
        return cqe;
    }
    std::vector<AsyncEvent> events() {
        std::vector<AsyncEvent> list;
        std::array<engine::ShardEvent, 16> found;
        const size_t n = w.shard.poll_events(found);
        for (size_t i = 0; i < n; ++i)
            if (found[i].kind == engine::ShardEventKind::Async && found[i].cookie == srq.cookie)
                list.push_back(found[i].async);
        return list;
    }

    EngineWorld w;
    AppSession &sa, &sb;
    AppCq &cq_a, &cq_b;
    AppSrq& srq;
    AppQp* senders[2];
    AppQp* receivers[2];
    std::vector<uint8_t> src = std::vector<uint8_t>(8192, 7), dst = std::vector<uint8_t>(8192);
    uint32_t key_src = 0, key_dst = 0;
    abi::Cqe cqe{};
};

}  // namespace

TEST_CASE("an SRQ serves its QPs in the order in which messages arrive", "[engine][10.2.9]") {
    World t;
    for (uint64_t i = 1; i <= 4; ++i) t.post(i);
    const int order[] = {0, 1, 1, 0};
    for (uint64_t i = 0; i < 4; ++i) {
        t.send(order[i], 3000);
        const abi::Cqe& e = t.received();
        CHECK(e.status == 0);
        CHECK(e.wr_id == i + 1);
        CHECK(e.qpn == t.receivers[order[i]]->qpn);
        CHECK(t.srq.consumed() == i + 1);
    }
    CHECK(std::memcmp(t.src.data(), t.dst.data(), 3000) == 0);
}

TEST_CASE("a QP holds no receive that it does not need", "[engine][10.2.9]") {
    World t;
    t.post(1);
    t.w.turns(50);
    CHECK(t.srq.consumed() == 0);
    // Both QPs want the only one.
    t.send(0, 16);
    t.send(1, 16);
    CHECK(t.received().wr_id == 1);
    CHECK(t.srq.consumed() == 1);
    t.post(2);
    CHECK(t.received().wr_id == 2);  // after an RNR wait
    CHECK(t.w.counter(1, stats::Counter::out_of_buffer) >= 1);
}

TEST_CASE("the limit event comes once, when fewer wait than the limit", "[engine][case25][10.2.9.1]") {
    World t;
    for (uint64_t i = 1; i <= 4; ++i) t.post(i);
    t.w.shard.set_srq_limit(t.srq.id, 3);
    CHECK(t.events().empty());
    t.send(0, 16);
    t.received();
    CHECK(t.events().empty());  // three wait
    t.send(0, 16);
    t.received();
    CHECK(t.events() == std::vector{AsyncEvent::SrqLimitReached});
    CHECK(t.w.shard.srq_limit(t.srq.id) == 0);
    t.send(0, 16);
    t.received();
    CHECK(t.events().empty());
    t.w.shard.set_srq_limit(t.srq.id, 2);  // one waits
    CHECK(t.events() == std::vector{AsyncEvent::SrqLimitReached});
}

TEST_CASE("a new size keeps what waits, in order", "[engine][10.2.9]") {
    World t;
    for (uint64_t i = 1; i <= 8; ++i) t.post(i);
    t.send(0, 16);
    CHECK(t.received().wr_id == 1);
    AppSrq small(4, kSges), large(32, kSges);
    CHECK(t.w.shard.resize_srq(t.srq.id, small.view()) == EINVAL);
    REQUIRE(t.w.shard.resize_srq(t.srq.id, large.view()) == 0);
    CHECK(large.header().producer.load() == 8);
    CHECK(large.consumed() == 1);
    large.producer = 8;
    large.post(9, sge(t.dst.data(), 4096, t.key_dst));
    for (uint64_t i = 2; i <= 9; ++i) {
        t.send(i % 2, 16);
        CHECK(t.received().wr_id == i);
    }
}

TEST_CASE("nonsense in the producer index ends the SRQ, once", "[engine]") {
    World t;
    t.srq.header().producer.store(1000);
    t.send(0, 16);
    t.send(1, 16);
    t.w.turns(200);
    CHECK(t.events() == std::vector{AsyncEvent::SrqErr});
    CHECK(t.srq.consumed() == 0);
}

TEST_CASE("a QP in ERR leaves the SRQ alone and tells that it takes nothing more", "[engine][11.6.3.6]") {
    World t;
    t.post(1);
    std::array<engine::ShardEvent, 16> found;
    t.w.shard.poll_events(found);
    transport::QpAttr a;
    a.state = QpState::Err;
    REQUIRE(t.w.modify(*t.receivers[0], a, qp_attr_mask::kState) == 0);
    t.w.turns(50);
    const size_t n = t.w.shard.poll_events(found);
    bool last = false;
    for (size_t i = 0; i < n; ++i) last |= found[i].async == AsyncEvent::QpLastWqeReached;
    CHECK(last);
    CHECK(t.srq.consumed() == 0);
    t.send(1, 16);
    CHECK(t.received().wr_id == 1);
}
