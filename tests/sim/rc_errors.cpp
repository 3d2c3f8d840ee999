// SPDX-License-Identifier: BSD-3-Clause
// Errors and lifetime between two real QPs: the statuses both sides see, flushes, ERR and RESET in the middle of
// traffic, slow receivers. IBTA volume 1, 9.9, 10.3.1.
#include <catch2/catch.hpp>

#include "tests/sim/workload.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;

namespace {

std::vector<Sge> at(uint64_t offset, uint32_t bytes, uint32_t key = kKey) {
    return {{kMemoryBase + offset, bytes, key}};
}
constexpr uint64_t kRemote = kMemoryBase + 0x100000;

// The statuses of all completions, oldest first.
std::vector<WcStatus> statuses(const std::vector<transport::Completion>& all) {
    std::vector<WcStatus> s;
    for (const auto& c : all) s.push_back(c.status);
    return s;
}
using Statuses = std::vector<WcStatus>;
using enum WcStatus;

}  // namespace

TEST_CASE("a refused request: both sides see why, in order", "[sim][rc][case8][9.9.3]") {
    QpPair p;
    p.a.send(WrOpcode::Send, at(0, 2000));
    p.b.receive(at(0, 2000));
    Statuses want_a{Success, RemAccessErr, WrFlushErr};
    Statuses want_b{Success};
    std::vector<AsyncEvent> want_events{AsyncEvent::QpAccessErr};
    SECTION("WRITE, bad rkey, no receive posted") {
        p.a.send(WrOpcode::RdmaWrite, at(0, 5000), kRemote, 0x999);
    }
    SECTION("READ, bad rkey, no receive posted") {
        p.a.send(WrOpcode::RdmaRead, at(0, 5000), kRemote, 0x999);
    }
    SECTION("FETCH_ADD, bad rkey, no receive posted") {
        p.a.send(WrOpcode::AtomicFetchAndAdd, at(0, 8), kRemote, 0x999);
    }
    SECTION("WRITE past the end") {
        p.a.send(WrOpcode::RdmaWrite, at(0, 5000), kMemoryBase + (4 << 20) - 4999);
    }
    SECTION("a SEND longer than its receive") {
        p.b.receive(at(0, 4999));
        p.b.receive(at(0, 100));
        p.a.send(WrOpcode::Send, at(0, 5000));
        want_a[1] = RemInvReqErr;
        want_b = {Success, LocLenErr, WrFlushErr};
        want_events.clear();
    }
    SECTION("a receive with a bad lkey") {
        p.b.receive(at(0, 5000, 0x999));
        p.a.send(WrOpcode::Send, at(0, 5000));
        want_a[1] = RemOpErr;
        want_b = {Success, LocProtErr};
        want_events.clear();
    }
    SECTION("WRITE without the QP's right") {
        transport::QpAttr attr;
        attr.access_flags = 0;
        REQUIRE(p.b.qp.modify(attr, qp_attr_mask::kAccessFlags, p.now) == 0);
        p.a.send(WrOpcode::RdmaWrite, at(0, 4), kRemote);
        want_a[1] = RemInvReqErr;
        want_events = {AsyncEvent::QpReqErr};
    }
    p.a.send(WrOpcode::Send, at(0, 1));
    p.settle();
    CHECK(statuses(p.a.sends) == want_a);
    CHECK(statuses(p.b.receives) == want_b);
    CHECK(p.a.qp.state() == QpState::Err);
    CHECK(p.b.qp.state() == QpState::Err);
    CHECK(p.b.events == want_events);
    CHECK(p.a.events.empty());
    CHECK(p.b.count(Counter::naks_sent) == 1);
    CHECK(p.healthy());
}

TEST_CASE("a NAK that is lost: the peer gives up by its timer, the responder stays silent", "[sim][rc]") {
    QpPair p;
    p.ba.filter = [](const wire::PacketView&) { return Fate::Drop; };
    p.a.send(WrOpcode::RdmaWrite, at(0, 5), kRemote, 0x999);
    p.settle();
    CHECK(statuses(p.a.sends) == Statuses{RetryExcErr});
    CHECK(p.ba.counts.sent == 1);
}

TEST_CASE("slow receivers: every rnr_retry below 7 gives up, 7 waits; the storm is bounded",
          "[sim][rc][case15][case16]") {
    for (const uint8_t n : {0, 2, 7}) {
        PairOptions o;
        o.attr.rnr_retry = n;
        QpPair p(o);
        for (int i = 0; i < 20; ++i) p.a.send(WrOpcode::Send, at(0, 10));
        const Duration patience = 10 * kMillisecond;
        p.run([] { return false; }, patience);
        if (n < 7) {
            REQUIRE(p.a.sends.size() == 20);
            CHECK(p.a.sends[0].status == RnrRetryExcErr);
            CHECK(p.a.sends[1].status == WrFlushErr);
            CHECK(p.b.qp.state() == QpState::Rts);
            CHECK(p.b.count(Counter::out_of_buffer) == n + 1u);
            continue;
        }
        CHECK(p.a.sends.empty());
        // One NAK per delay of at least 10 us and round trip of at least 10 us.
        CHECK(p.b.count(Counter::out_of_buffer) <= static_cast<uint64_t>(patience / (20 * kMicrosecond) + 1));
        for (int i = 0; i < 20; ++i) p.b.receive(at(0, 10));
        p.settle();
        CHECK(p.a.sends.size() == 20);
        CHECK(p.a.sends.back().status == Success);
    }
}

TEST_CASE("a SEND that arrives while the QP goes to ERR completes its receive exactly once",
          "[sim][rc][case14][10.8.6]") {
    uint64_t succeeded = 0, flushed = 0;
    for (uint64_t seed = 1; seed <= 10'000; ++seed) {
        PairOptions o;
        o.seed = seed;
        o.memory_bytes = 0x4000;
        QpPair p(o);
        Random random(seed);
        p.b.memory.slowest = static_cast<Duration>(random.below(3)) * kMicrosecond;
        for (int i = 0; i < 3; ++i) {
            p.b.receive(at(static_cast<uint64_t>(i) * 0x800, 0x800));
            p.a.send(WrOpcode::Send, at(0x2000, static_cast<uint32_t>(random.below(0x800))));
        }
        p.run([] { return false; }, 4 * kMicrosecond + static_cast<Duration>(random.below(4 * kMicrosecond)));
        p.b.set_state(QpState::Err);
        p.run([&] { return p.b.receives_done == 3 && p.b.memory.idle(); }, 100 * kMicrosecond);
        if (p.b.receives_done != 3 || !p.healthy()) FAIL("seed " << seed << ": " << p.b.receives_done);
        for (const auto& c : p.b.receives) (c.status == Success ? succeeded : flushed)++;
    }
    CHECK(succeeded > 1000);
    CHECK(flushed > 1000);
}

TEST_CASE("RESET in the middle of traffic, then a new connection on the same QPs", "[sim][rc][10.3.1]") {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        PairOptions o;
        o.seed = seed;
        QpPair p(o);
        p.set_faults({0.02, 0.02, 0.02, 0.02});
        p.a.memory.slowest = p.b.memory.slowest = 2 * kMicrosecond;
        WorkloadOptions w;
        w.seed = seed;
        {
            Traffic t(p, w);
            t.forward.post_many(30);
            t.backward.post_many(30);
            p.run([] { return false; }, static_cast<Duration>(seed) * 3 * kMicrosecond);
            for (Endpoint* e : {&p.a, &p.b}) {
                e->on_completion = nullptr;
                e->set_state(seed % 2 ? QpState::Reset : QpState::Err);
            }
            // Frames and placements of the old connection die out.
            p.settle(10 * kMillisecond);
            if (seed % 2 == 0) {
                CHECK(p.a.sends_done == p.a.posted_sends());
                CHECK(p.b.receives_done == p.b.posted_receives());
                for (Endpoint* e : {&p.a, &p.b}) e->set_state(QpState::Reset);
            }
            for (Endpoint* e : {&p.a, &p.b}) CHECK(e->qp.dma_idle());
        }
        CAPTURE(seed);
        CHECK(p.healthy());
        for (Endpoint* e : {&p.a, &p.b}) e->forget();
        transport::QpAttr attr = o.attr;
        attr.path_mtu = 2;
        attr.sq_psn = 5;
        attr.rq_psn = 9;
        attr.dest_qpn = p.b.qp.config().qpn;
        p.a.connect(attr);
        std::swap(attr.sq_psn, attr.rq_psn);
        attr.dest_qpn = p.a.qp.config().qpn;
        p.b.connect(attr);
        w.seed = seed + 1000;
        Traffic t(p, w);
        t.forward.post_many(20);
        t.backward.post_many(20);
        CHECK(p.run([&] { return t.done() || !t.clean(); }, 10 * kSecond));
        INFO(t.first_error());
        CHECK(t.clean());
    }
}

TEST_CASE("both sides fail at once", "[sim][rc]") {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
        PairOptions o;
        o.seed = seed;
        QpPair p(o);
        p.set_faults({0.02, 0.02, 0.02, 0.02});
        for (Endpoint* e : {&p.a, &p.b}) {
            for (int i = 0; i < 5; ++i) {
                e->receive(at(0x1000, 5000));
                e->send(WrOpcode::Send, at(0, 3000));
            }
            e->send(WrOpcode::RdmaWrite, at(0, 3000), kRemote, 0x999);
            e->send(WrOpcode::Send, at(0, 3000));
        }
        p.settle();
        for (Endpoint* e : {&p.a, &p.b}) {
            CHECK(e->qp.state() == QpState::Err);
            CHECK(e->sends_done == e->posted_sends());
            CHECK(e->receives_done == e->posted_receives());
        }
        CHECK(p.healthy());
    }
}
