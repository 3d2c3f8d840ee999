// SPDX-License-Identifier: BSD-3-Clause
// Cases that need the engine: a transmit ring that is full, several requesters under loss, objects that are destroyed
// while frames and payload of theirs are anywhere, frames kept because they came early.
#include <catch2/catch.hpp>
#include <random>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

// A port that takes few frames at a time, or none.
class NarrowPort final : public engine::Port {
  public:
    explicit NarrowPort(engine::Port& real) : real_(real) {}
    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override { return real_.rx_burst(now, frames); }
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override {
        return real_.tx_burst(now, frames.first(std::min(frames.size(), most)));
    }
    [[nodiscard]] Instant next_deadline() const override { return real_.next_deadline(); }
    [[nodiscard]] engine::PortInfo info() const override { return real_.info(); }
    size_t most = ~size_t{0};

  private:
    engine::Port& real_;
};

constexpr uint32_t kBytes = 1 << 20;

// Requesters on NICs 0, 2, 4 ..., all into NIC 1; the last argument: how early packets are kept.
struct World {
    explicit World(uint32_t requesters = 1, payload::Path path = payload::Path::ProcessVm, uint32_t reorder = 0)
        : w(0), sb(w.add_session(path)) {
        w.reorder_packets = reorder;
        w.wrap_port = [this](engine::Port& real) -> engine::Port& { return ports.emplace_back(real); };
        w.add_nics(0, requesters + 1);
        for (uint32_t i = 0; i < requesters; ++i) {
            AppSession& sa = w.add_session(path);
            const uint32_t nic = i == 0 ? 0 : i + 1;
            AppCq& ca = w.add_cq(sa, 1024);
            AppCq& cb = w.add_cq(sb, 1024);
            pairs.push_back({&sa, &w.add_qp(sa, ca, ca, nic), &w.add_qp(sb, cb, cb, 1), std::vector<uint8_t>(kBytes),
                             std::vector<uint8_t>(kBytes)});
            auto& p = pairs.back();
            REQUIRE(w.connect(*p.a, *p.b) == 0);
            std::mt19937 rng(i);
            for (auto& c : p.src) c = static_cast<uint8_t>(rng());
            p.key_src = w.add_mr(sa, p.src.data(), kBytes);
            p.key_dst = w.add_mr(sb, p.dst.data(), kBytes);
        }
    }
    struct Pair {
        AppSession* session;
        AppQp *a, *b;
        std::vector<uint8_t> src, dst;
        uint32_t key_src = 0, key_dst = 0;
    };
    void post(Pair& p, WrOpcode op, uint32_t bytes, uint64_t id, uint32_t offset = 0) {
        auto wqe = make_wqe(op, id);
        wqe.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data() + offset);
        wqe.rkey = p.key_dst;
        if (op == WrOpcode::Send) p.b->post_recv(id, {sge(p.dst.data() + offset, bytes, p.key_dst)});
        p.a->post_send(wqe, {sge(p.src.data() + offset, bytes, p.key_src)});
    }
    // destroy_qp until it is done; false: not within so many turns.
    bool destroy(AppQp& q) {
        for (int turn = 0; turn < 2000; ++turn) {
            if (w.shard.destroy_qp(q.qpn)) return true;
            w.turns(1);
        }
        return false;
    }
    // The ring in front of a NIC's port becomes full, and stays so: the next to leave has no room.
    void back_up(uint32_t nic) {
        ports[nic].most = 0;
        const std::vector<std::byte> frame(64);
        while (w.shard.send_raw(nic, frame)) {
        }
    }
    uint64_t total(Counter c) {
        uint64_t n = 0;
        for (uint32_t nic = 0; nic < ports.size(); ++nic) n += w.counter(nic, c);
        return n;
    }

    std::deque<NarrowPort> ports;  // outlives the world
    EngineWorld w;
    AppSession& sb;
    std::deque<Pair> pairs;
};

void impair(World& world, const fabric::Impairments& bad) {
    for (uint32_t nic = 0; nic < world.ports.size(); ++nic) {
        fabric::Impairments mine = bad;
        mine.seed = bad.seed * 16 + nic;
        world.w.fabric.set_impairments(nic, mine);
    }
}

}  // namespace

TEST_CASE("READ responses of megabytes through a transmit ring that is always full", "[engine][case19]") {
    World world;
    world.ports[1].most = 2;
    auto& p = world.pairs[0];
    std::copy(p.src.begin(), p.src.end(), p.dst.begin());
    std::fill(p.src.begin(), p.src.end(), uint8_t{0});
    for (uint64_t i = 0; i < 8; ++i) world.post(p, WrOpcode::RdmaRead, kBytes / 2, i, i % 2 ? kBytes / 2 : 0);
    abi::Cqe e;
    for (uint64_t i = 0; i < 8; ++i) {
        REQUIRE(world.w.wait_cqe(p.a->send_cq, e));
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
    }
    CHECK(p.src == p.dst);
    CHECK(world.total(Counter::local_ack_timeout_err) == 0);
    CHECK(world.total(Counter::retransmitted_packets) == 0);
}

TEST_CASE("two requesters into one responder under loss: both go on, and nobody spins", "[engine][case20]") {
    for (const uint32_t ppm : {1000u, 10000u}) {
        World world(2);
        fabric::Impairments bad;
        bad.seed = ppm;
        bad.drop_ppm = ppm;
        impair(world, bad);
        constexpr uint64_t kMessages = 150;
        constexpr uint32_t kSize = 20000;
        std::array<uint64_t, 2> posted{}, done{};
        uint64_t turns = 0;
        while (done[0] + done[1] < 2 * kMessages && turns < 200'000) {
            for (size_t i = 0; i < 2; ++i) {
                auto& p = world.pairs[i];
                for (; posted[i] < kMessages && posted[i] < done[i] + 16; ++posted[i])
                    world.post(p, i == 0 ? WrOpcode::RdmaWrite : WrOpcode::Send, kSize, posted[i]);
                abi::Cqe e;
                for (; p.a->send_cq.poll(e); ++done[i]) {
                    REQUIRE(static_cast<WcStatus>(e.status) == WcStatus::Success);
                    REQUIRE(e.wr_id == done[i]);
                }
                while (p.b->recv_cq.poll(e)) REQUIRE(static_cast<WcStatus>(e.status) == WcStatus::Success);
            }
            world.w.turns(1);
            ++turns;
        }
        CHECK(done == std::array{kMessages, kMessages});
        const uint64_t needed = 2 * kMessages * (kSize / 1024 + 1);
        CAPTURE(ppm, turns);
        // A window at most for each frame lost.
        CHECK(world.total(Counter::retransmitted_packets) < needed * ppm / 1'000'000 * 2 * 128);
        for (auto& p : world.pairs)
            CHECK(std::equal(p.src.begin(), p.src.begin() + kSize, p.dst.begin(), p.dst.begin() + kSize));
    }
}

TEST_CASE("a slow consumer with the shortest RNR timer is a bounded storm, and its neighbour goes on",
          "[engine][case16][9.7.5.2.8]") {
    World world(2);
    world.w.min_rnr_timer = 1;  // 10 us
    auto& slow = world.pairs[0];
    auto& other = world.pairs[1];
    for (AppQp* q : {slow.a, slow.b}) {
        transport::QpAttr reset;
        reset.state = QpState::Reset;
        REQUIRE(world.w.modify(*q, reset, qp_attr_mask::kState) == 0);
    }
    REQUIRE(world.w.connect(*slow.a, *slow.b) == 0);
    for (uint64_t i = 0; i < 8; ++i) slow.a->post_send(make_wqe(WrOpcode::Send, i), {sge(slow.src.data(), 64, slow.key_src)});
    uint64_t done = 0;
    const Instant start = world.w.now;
    for (uint64_t turn = 0; turn < 5000; ++turn) {  // 10 ms
        if (turn % 20 == 0 && turn / 20 < 100) world.post(other, WrOpcode::RdmaWrite, 20'000, turn / 20);
        world.w.turns(1);
        for (abi::Cqe e; other.a->send_cq.poll(e); ++done) CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
    }
    CHECK(done == 100);
    const uint64_t waits = static_cast<uint64_t>(world.w.now - start) / (10 * kMicrosecond);
    const uint64_t refused = world.w.counter(1, Counter::out_of_buffer);
    CHECK(refused > 10);
    CHECK(refused <= waits + 1);  // one message and one answer for each wait
    CHECK(world.w.counter(0, Counter::rnr_nak_retry_err) <= refused);
    abi::Cqe e;
    CHECK_FALSE(slow.a->send_cq.poll(e));
    for (uint64_t i = 0; i < 8; ++i) slow.b->post_recv(i, {sge(slow.dst.data(), 64, slow.key_dst)});
    for (uint64_t i = 0; i < 8; ++i) {
        REQUIRE(world.w.wait_cqe(slow.a->send_cq, e));
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
    }
}

TEST_CASE("destroy_qp ends while frames are stuck behind a paused port", "[engine][case21]") {
    const auto path = GENERATE(payload::Path::ProcessVm, payload::Path::Agent);
    HeapPool* pool = nullptr;
    {
        World world(1, path);
        pool = &world.w.pool;
        auto& p = world.pairs[0];
        world.ports[0].most = world.ports[1].most = 0;
        for (uint64_t i = 0; i < 20; ++i) world.post(p, WrOpcode::RdmaWrite, 200'000, i);
        world.w.turns(200);
        CHECK(world.destroy(*p.a));
        CHECK(world.destroy(*p.b));
        world.ports[0].most = world.ports[1].most = 64;
        world.w.turns(200);
        CHECK(pool->out() <= 2 * 128);  // the stock of the caches
    }
}

TEST_CASE("what was read already is flushed, also while the port takes nothing", "[engine][case21]") {
    World world(1, payload::Path::Agent);
    auto& p = world.pairs[0];
    world.w.agents_run = false;
    world.post(p, WrOpcode::RdmaWrite, 100, 5);
    world.w.turns(20);
    world.back_up(0);
    world.w.agents_run = true;
    world.w.turns(20);
    transport::QpAttr attr;
    attr.state = QpState::Err;
    REQUIRE(world.w.modify(*p.a, attr, qp_attr_mask::kState) == 0);
    abi::Cqe e;
    REQUIRE(world.w.wait_cqe(p.a->send_cq, e, 100));
    CHECK(static_cast<WcStatus>(e.status) == WcStatus::WrFlushErr);
}

TEST_CASE("a batch that its port does not take holds up nothing else", "[engine][case21]") {
    World world(2, payload::Path::Agent);
    auto &first = world.pairs[0], &other = world.pairs[1];  // on NICs 0 and 2
    AppSession& s = world.w.add_session(payload::Path::Agent);
    AppCq& cq = world.w.add_cq(s);
    AppQp& second = world.w.add_qp(s, cq, cq, 0);
    REQUIRE(world.w.connect_one(second, *first.b, 3, 10, 7) == 0);
    const uint32_t key = world.w.add_mr(s, first.src.data(), kBytes);
    world.w.agents_run = false;
    world.post(first, WrOpcode::RdmaWrite, 100, 1);
    second.post_send(make_wqe(WrOpcode::Send, 2), {sge(first.src.data(), 100, key)});
    world.post(other, WrOpcode::RdmaWrite, 100, 3);
    world.w.turns(10);
    world.back_up(0);
    world.back_up(2);
    for (AppSession* session : {first.session, &s, other.session}) {  // in this order they are kept
        session->serve_agent();
        world.w.turns(2);
    }
    world.w.agents_run = true;
    abi::Cqe e;
    CHECK_FALSE(other.a->send_cq.poll(e));
    world.ports[2].most = 64;
    CHECK(world.w.wait_cqe(other.a->send_cq, e));
    CHECK(world.destroy(second));
    world.ports[0].most = 64;
    CHECK(world.w.wait_cqe(first.a->send_cq, e));
    CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
}

TEST_CASE("destroy at any moment of any traffic, beside a pair that goes on", "[engine][case21]") {
    for (uint32_t seed = 1; seed <= 30; ++seed) {
        World world(2, seed % 2 ? payload::Path::Agent : payload::Path::ProcessVm, seed % 3 ? 32 : 0);
        fabric::Impairments bad;
        bad.seed = seed;
        bad.drop_ppm = bad.duplicate_ppm = bad.reorder_ppm = bad.corrupt_ppm = 20'000;
        impair(world, bad);
        std::mt19937 rng(seed);
        auto& victim = world.pairs[0];
        auto& other = world.pairs[1];
        constexpr std::array kOps{WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead};
        for (uint64_t i = 0; i < 12; ++i) world.post(victim, kOps[rng() % 3], rng() % 100'000, i);
        for (uint64_t i = 0; i < 4; ++i) world.post(other, WrOpcode::RdmaWrite, 50'000, i);
        if (rng() % 4 == 0) world.ports[rng() % 2].most = rng() % 3;
        for (uint32_t n = rng() % 150; n != 0; --n) {
            world.w.agents_run = rng() % 3 == 0;
            world.w.turns(1);
        }
        world.w.agents_run = true;
        AppQp* first = rng() % 2 ? victim.a : victim.b;
        CAPTURE(seed);
        CHECK(world.destroy(*first));
        world.w.turns(rng() % 50);
        CHECK(world.destroy(first == victim.a ? *victim.b : *victim.a));
        for (auto& port : world.ports) port.most = 64;
        abi::Cqe e;
        for (uint64_t i = 0; i < 4; ++i) {
            REQUIRE(world.w.wait_cqe(other.a->send_cq, e, 200'000));
            CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
        }
        CHECK(world.destroy(*other.a));
        CHECK(world.destroy(*other.b));
        impair(world, {});
        world.w.turns(300);
        CHECK(world.w.pool.out() <= 3 * 128);
    }
}

TEST_CASE("frames that are overtaken are not repeated, and none is left behind", "[engine][reorder]") {
    const auto path = GENERATE(payload::Path::ProcessVm, payload::Path::Agent);
    std::array<uint64_t, 2> repeated{};
    for (const bool tolerant : {false, true}) {
        World world(1, path, tolerant ? 32 : 0);
        fabric::Impairments bad;
        bad.seed = 3;
        bad.reorder_ppm = 20'000;
        impair(world, bad);
        auto& p = world.pairs[0];
        for (uint64_t i = 0; i < 60; ++i) {
            const auto op = std::array{WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead}[i % 3];
            if (op == WrOpcode::RdmaRead) std::fill(p.src.begin(), p.src.begin() + 100'000, uint8_t{0});
            world.post(p, op, 100'000, i);
            abi::Cqe e;
            REQUIRE(world.w.wait_cqe(p.a->send_cq, e, 200'000));
            REQUIRE(static_cast<WcStatus>(e.status) == WcStatus::Success);
            REQUIRE(std::equal(p.src.begin(), p.src.begin() + 100'000, p.dst.begin()));
            while (p.b->recv_cq.poll(e)) {
            }
        }
        world.w.turns(1000);
        CHECK(world.w.pool.out() <= 2 * 128);
        repeated[tolerant] = world.total(Counter::retransmitted_packets);
    }
    CAPTURE(repeated[0], repeated[1]);
    CHECK(repeated[0] > 100);
    CHECK(repeated[1] * 5 < repeated[0]);
}
