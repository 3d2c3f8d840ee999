// SPDX-License-Identifier: BSD-3-Clause
// Completion rings: arming, solicited events, overflow, unsignaled work, flush of a QP in error, and events to control.
#include <catch2/catch.hpp>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

constexpr uint32_t kChannel = 5;

struct Pair {
    explicit Pair(uint32_t entries = 256)
        : sa(w.add_session()),
          sb(w.add_session()),
          cq_a(w.add_cq(sa, entries, kChannel)),
          cq_b(w.add_cq(sb, entries, kChannel)),
          a(w.add_qp(sa, cq_a, cq_a, 0)),
          b(w.add_qp(sb, cq_b, cq_b, 1)) {
        REQUIRE(w.connect(a, b) == 0);
        key = w.add_mr(sb, buffer, sizeof buffer);
    }
    void send(uint8_t flags) {
        b.post_recv(1, {sge(buffer, sizeof buffer, key)});
        a.post_send(make_wqe(WrOpcode::Send, 9, flags), {}, std::vector<std::byte>(8));
    }
    std::vector<engine::ShardEvent> events() {
        std::array<engine::ShardEvent, 64> e;
        const size_t n = w.shard.poll_events(e);
        return {e.begin(), e.begin() + static_cast<ptrdiff_t>(n)};
    }
    EngineWorld w;
    AppSession &sa, &sb;
    AppCq &cq_a, &cq_b;
    AppQp &a, &b;
    std::byte buffer[64];
    uint32_t key = 0;
    abi::Cqe cqe;
};

WcStatus status(const abi::Cqe& e) {
    return static_cast<WcStatus>(e.status);
}

}  // namespace

TEST_CASE("an armed CQ gives one event for the next CQE", "[engine]") {
    Pair p;
    p.cq_b.header().armed.store(abi::kArmedAny);
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    const auto e = p.events();
    REQUIRE(e.size() >= 1);
    size_t completions = 0;
    for (const auto& x : e)
        if (x.kind == engine::ShardEventKind::Completion) {
            ++completions;
            CHECK(x.session == p.sb.id);
            CHECK(x.object == kChannel);
            CHECK(x.cookie == 0xC2);
        }
    CHECK(completions == 1);
    CHECK(p.cq_b.header().armed.load() == abi::kDisarmed);
}

TEST_CASE("armed for solicited: only a solicited SEND or an error counts", "[engine][11.4.2.2]") {
    Pair p;
    p.cq_b.header().armed.store(abi::kArmedSolicited);
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    for (const auto& e : p.events()) CHECK(e.kind != engine::ShardEventKind::Completion);
    CHECK(p.cq_b.header().armed.load() == abi::kArmedSolicited);
    p.send(send_flags::kSignaled | send_flags::kSolicited);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(p.events().size() == 1);
    CHECK(p.cq_b.header().armed.load() == abi::kDisarmed);
}

TEST_CASE("moderated: an event for so many CQEs, or so long after the first", "[engine]") {
    Pair p;
    constexpr uint32_t kCount = 4, kMicroseconds = 3000;
    p.cq_b.header().moderation.store(kCount | kMicroseconds << 16);
    const auto completions = [&] {
        size_t n = 0;
        for (const auto& e : p.events()) n += e.kind == engine::ShardEventKind::Completion;
        return n;
    };
    const auto one = [&] {
        p.send(send_flags::kSignaled);
        REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    };
    // What came before the CQ was armed does not count.
    for (uint32_t i = 0; i < 10; ++i) one();
    p.cq_b.header().armed.store(abi::kArmedAny);
    for (uint32_t i = 0; i < kCount; ++i) {
        CHECK(completions() == 0);
        CHECK(p.cq_b.header().armed.load() == abi::kArmedAny);
        one();
    }
    p.w.turns(1);
    CHECK(completions() == 1);
    CHECK(p.cq_b.header().armed.load() == abi::kDisarmed);
    p.cq_b.header().armed.store(abi::kArmedAny);
    one();
    const Instant first = p.w.now;
    CHECK(p.w.run_until([&] { return p.cq_b.header().armed.load() == abi::kDisarmed; }));
    CHECK(p.w.now - first > kMicroseconds * kMicrosecond - 20 * kMicrosecond);
    CHECK(p.w.now - first < kMicroseconds * kMicrosecond + 20 * kMicrosecond);
    CHECK(completions() == 1);
    // A count alone has all the time.
    p.cq_b.header().moderation.store(2);
    p.cq_b.header().armed.store(abi::kArmedAny);
    one();
    p.w.turns(100, kSecond);
    CHECK(completions() == 0);
    one();
    p.w.turns(1);
    CHECK(completions() == 1);
}

TEST_CASE("unsignaled work makes no CQE", "[engine][10.7.3.1]") {
    Pair p;
    p.send(0);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    p.w.turns(200);
    CHECK_FALSE(p.cq_a.poll(p.cqe));
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    CHECK(p.cqe.wqe_index == 1);
}

TEST_CASE("a CQ overrun is told once and nothing is written over", "[engine][10.2.6.2]") {
    Pair p(4);
    for (int i = 0; i < 10; ++i) p.send(send_flags::kSignaled);
    p.w.turns(2000);
    CHECK(p.cq_b.header().overflow.load() == 1);
    size_t errors = 0;
    for (const auto& e : p.events())
        if (e.kind == engine::ShardEventKind::Async && e.async == AsyncEvent::CqErr && e.session == p.sb.id) {
            ++errors;
            CHECK(e.cookie == 0xC2);
        }
    CHECK(errors == 1);
    for (uint32_t i = 0; i < 4; ++i) {
        REQUIRE(p.cq_b.poll(p.cqe));
        CHECK(p.cqe.wqe_index == i);
    }
    CHECK_FALSE(p.cq_b.poll(p.cqe));
    p.send(send_flags::kSignaled);
    p.w.turns(500);
    CHECK_FALSE(p.cq_b.poll(p.cqe));
}

TEST_CASE("a nonsense consumer index only hurts its own ring", "[engine]") {
    Pair p(4);
    p.cq_b.header().consumer.store(0x80000000);
    for (int i = 0; i < 10; ++i) p.send(send_flags::kSignaled);
    p.w.turns(1000);
    CHECK(p.cq_b.header().overflow.load() == 1);
    REQUIRE(p.cq_a.poll(p.cqe));
    CHECK(status(p.cqe) == WcStatus::Success);
}

TEST_CASE("modify to ERR flushes both queues, also what is posted later", "[engine]") {
    Pair p;
    for (uint32_t i = 0; i < 100; ++i) p.b.post_recv(i, {sge(p.buffer, 64, p.key)});
    transport::QpAttr attr;
    attr.state = QpState::Err;
    REQUIRE(p.w.modify(p.b, attr, qp_attr_mask::kState) == 0);
    for (uint32_t i = 0; i < 100; ++i) {
        REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
        CHECK(status(p.cqe) == WcStatus::WrFlushErr);
        CHECK(p.cqe.wr_id == i);
    }
    p.b.post_recv(500, {});  // no doorbell
    REQUIRE(p.w.run_until([&] { return p.cq_b.poll(p.cqe); }, 200, kMillisecond));
    CHECK(p.cqe.wr_id == 500);
    p.b.post_send(make_wqe(WrOpcode::Send, 501, 0), {}, std::vector<std::byte>(4));
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(p.cqe.wr_id == 501);
    CHECK(status(p.cqe) == WcStatus::WrFlushErr);
}

TEST_CASE("a sleeper in ibv_poll_cq is woken", "[engine]") {
    Pair p;
    auto& page = *p.sb.page.as<abi::SessionPage>();
    page.cq_sleepers.store(1);
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(page.cq_wake.load() == 1);
    page.cq_sleepers.store(0);
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(page.cq_wake.load() == 1);
}

TEST_CASE("RESET and back: queues start again at 0", "[engine]") {
    Pair p;
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    for (AppQp* q : {&p.a, &p.b}) {
        transport::QpAttr attr;
        REQUIRE(p.w.modify(*q, attr, qp_attr_mask::kState) == 0);
        q->sq_header().producer.store(q->sq_producer = 0);
        q->rq_header().producer.store(q->rq_producer = 0);
    }
    while (p.cq_b.poll(p.cqe)) {
    }
    REQUIRE(p.w.connect(p.a, p.b) == 0);
    p.send(send_flags::kSignaled);
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    CHECK(status(p.cqe) == WcStatus::Success);
    CHECK(p.cqe.wqe_index == 0);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
}

TEST_CASE("a resized CQ has what was not consumed, in order, and stays armed", "[engine]") {
    Pair p(8);
    for (int i = 0; i < 3; ++i) p.send(send_flags::kSignaled);
    for (int i = 0; i < 2; ++i) REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    p.w.turns(200);
    p.send(send_flags::kSignaled);
    p.w.turns(200);
    p.events();
    p.cq_a.header().armed.store(abi::kArmedAny);
    AppCq larger(32);
    p.w.shard.resize_cq(p.w.cq_ids.at(&p.cq_a), &larger.header(), 32);
    CHECK(larger.header().armed.load() == abi::kArmedAny);
    for (int i = 0; i < 2; ++i) REQUIRE(larger.poll(p.cqe));
    CHECK_FALSE(larger.poll(p.cqe));
    for (uint32_t i = 0; i < 40; ++i) {
        p.send(send_flags::kSignaled);
        REQUIRE(p.w.wait_cqe(larger, p.cqe));
        CHECK(status(p.cqe) == WcStatus::Success);
    }
    size_t completions = 0;
    for (const auto& e : p.events()) completions += e.kind == engine::ShardEventKind::Completion && e.cookie == 0xC1;
    CHECK(completions == 1);
}

TEST_CASE("a CQ that shrinks below what waits has overrun", "[engine][10.2.6.2]") {
    Pair p(8);
    for (int i = 0; i < 4; ++i) p.send(send_flags::kSignaled);
    p.w.turns(400);
    AppCq small(2);
    p.w.shard.resize_cq(p.w.cq_ids.at(&p.cq_a), &small.header(), 2);
    CHECK(small.header().overflow.load() == 1);
    for (int i = 0; i < 2; ++i) REQUIRE(small.poll(p.cqe));
    CHECK_FALSE(small.poll(p.cqe));
}
