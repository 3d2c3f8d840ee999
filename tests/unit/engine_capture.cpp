// SPDX-License-Identifier: BSD-3-Clause
// Captured payload: sent from the stage, never from the application's memory; waited for, but not for long; believed in
// nothing. Read lib/abi/stage.h.
#include <catch2/catch.hpp>
#include <thread>

#include "abi/stage.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

constexpr uint32_t kSize = 10000;

struct Pair {
    Pair()
        : sa(w.add_session(payload::Path::ProcessVm, true)),
          sb(w.add_session()),
          cq_a(w.add_cq(sa)),
          cq_b(w.add_cq(sb)),
          a(w.add_qp(sa, cq_a, cq_a, 0)),
          b(w.add_qp(sb, cq_b, cq_b, 1)),
          src(1 << 18, 0x11),
          dst(1 << 18) {
        REQUIRE(w.connect(a, b) == 0);
        key_src = w.add_mr(sa, src.data(), src.size());
        key_dst = w.add_mr(sb, dst.data(), dst.size());
    }
    std::byte* stage() const { return sa.stage->p; }
    void post(uint64_t id, uint64_t stage_ref, uint32_t size = kSize, uint8_t flags = send_flags::kSignaled,
              uint32_t key = 0) {
        auto wqe = make_wqe(WrOpcode::RdmaWrite, id, flags);
        wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Staged);
        wqe.stage_ref = stage_ref;
        wqe.remote_addr = reinterpret_cast<uintptr_t>(dst.data());
        wqe.rkey = key_dst;
        a.post_send(wqe, {sge(src.data(), size, key != 0 ? key : key_src)});
    }
    WcStatus completed() {
        REQUIRE(w.wait_cqe(cq_a, cqe));
        return static_cast<WcStatus>(cqe.status);
    }
    [[nodiscard]] bool arrived(uint8_t byte, uint32_t size = kSize) const {
        return std::all_of(dst.begin(), dst.begin() + size, [&](uint8_t c) { return c == byte; }) && dst[size] == 0;
    }
    EngineWorld w;
    AppSession &sa, &sb;
    AppCq &cq_a, &cq_b;
    AppQp &a, &b;
    std::vector<uint8_t> src, dst;
    uint32_t key_src = 0, key_dst = 0;
    abi::Cqe cqe;
};

}  // namespace

TEST_CASE("captured payload is sent from the stage", "[engine]") {
    Pair p;
    constexpr uint32_t kAt = abi::kStageBytes - kSize;  // up to the last byte
    std::memset(p.stage() + kAt, 0x22, kSize);
    p.post(1, abi::kStageReady | kAt);
    CHECK(p.completed() == WcStatus::Success);
    CHECK(p.arrived(0x22));
    CHECK(p.w.counter(0, Counter::payload_captured_bytes) == kSize);
    CHECK(p.w.counter(0, Counter::payload_capture_missed) == 0);
    CHECK(p.a.sq_header().retired == 1);
}

TEST_CASE("captured payload behind the SGEs of its slot", "[engine]") {
    Pair p;
    constexpr uint32_t kRoom = 112;  // stride of these QPs: 64 bytes of WQE, 128 behind it; one SGE
    std::memset(p.a.sq_slot(0) + sizeof(abi::SqWqe) + sizeof(abi::WqeSge), 0x33, kRoom);
    p.post(1, abi::kStageReady | abi::kStageInSlot, kRoom);
    CHECK(p.completed() == WcStatus::Success);
    CHECK(p.arrived(0x33, kRoom));
    CHECK(p.w.counter(0, Counter::payload_captured_bytes) == kRoom);
    p.post(2, abi::kStageReady | abi::kStageInSlot, kRoom + 1);
    CHECK(p.completed() == WcStatus::LocQpOpErr);
}

TEST_CASE("a WQE to be captured is waited for, and sent as soon as it is", "[engine]") {
    Pair p;
    p.post(1, 0);
    p.w.turns(20);  // 40 us
    CHECK_FALSE(p.cq_a.poll(p.cqe));
    std::memset(p.stage(), 0x44, kSize);
    std::atomic_ref(reinterpret_cast<abi::SqWqe*>(p.a.sq_slot(0))->stage_ref).store(abi::kStageReady);
    p.sa.ring(p.a.slot_number);
    CHECK(p.completed() == WcStatus::Success);
    CHECK(p.arrived(0x44));
    CHECK(p.w.counter(0, Counter::payload_capture_missed) == 0);
}

TEST_CASE("a program that does not come back is gathered from", "[engine]") {
    Pair p;
    for (uint64_t id = 0; id < 40; ++id) p.post(id, 0);
    const Instant start = p.w.now;
    for (uint64_t id = 0; id < 40; ++id) {
        CHECK(p.completed() == WcStatus::Success);
        CHECK(p.cqe.wr_id == id);
    }
    CHECK(p.arrived(0x11));
    CHECK(p.w.counter(0, Counter::payload_capture_missed) == 40);
    CHECK(p.w.now - start < 2 * kMillisecond);  // virtual: four waits, each for twice as many as the one before
    // Asleep until an event: not waited for at all.
    p.cq_a.header().armed = abi::kArmedAny;
    p.post(40, 0);
    CHECK(p.w.wait_cqe(p.cq_a, p.cqe, 30));  // 60 us
}

TEST_CASE("keys of captured payload are checked, and what it refers to", "[engine][hostile]") {
    Pair p;
    SECTION("key") {
        p.post(1, abi::kStageReady, kSize, send_flags::kSignaled, 0x777700);
        CHECK(p.completed() == WcStatus::LocProtErr);
    }
    SECTION("offset") {
        const uint64_t ref = GENERATE(abi::kStageBytes - kSize + 1, abi::kStageBytes, 0xFFFFFFFF, 0xFFFFFFFF - kSize + 1);
        p.post(1, abi::kStageReady | ref);
        CHECK(p.completed() == WcStatus::LocQpOpErr);
    }
    SECTION("a READ has nothing to capture") {
        auto wqe = make_wqe(WrOpcode::RdmaRead, 1);
        wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Staged);
        wqe.stage_ref = abi::kStageReady;
        p.a.post_send(wqe, {sge(p.src.data(), 64, p.key_src)});
        CHECK(p.completed() == WcStatus::LocQpOpErr);
    }
    SECTION("no stage") {
        auto wqe = make_wqe(WrOpcode::Send, 1);
        wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Staged);
        wqe.stage_ref = abi::kStageReady;
        p.b.post_send(wqe, {sge(p.dst.data(), 64, p.key_dst)});
        REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
        CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::LocQpOpErr);
    }
    CHECK(p.arrived(0, 0));
}

TEST_CASE("unsignaled WQEs are told to be done with too", "[engine]") {
    Pair p;
    for (uint64_t id = 0; id < 5; ++id) p.post(id, abi::kStageReady, kSize, 0);
    CHECK(p.w.run_until([&] { return p.a.sq_header().retired == 5; }));
    CHECK_FALSE(p.cq_a.poll(p.cqe));
    transport::QpAttr attr;
    attr.state = QpState::Reset;
    CHECK(p.w.modify(p.a, attr, qp_attr_mask::kState) == 0);
}

TEST_CASE("a program that takes back what is waited for does not keep the shard awake", "[engine][hostile]") {
    Pair p;
    // run() has the real clock: a timer that is armed now would be hours behind it, and they are walked through.
    p.w.now = Instant{std::chrono::steady_clock::now().time_since_epoch().count()};
    p.post(1, 0);
    p.w.turns(20);
    SECTION("the queue is empty again") {
        p.a.sq_header().producer.store(0);
    }
    SECTION("the producer index is impossible") {
        p.a.sq_header().producer.store(0x7FFFFFFF);
    }
    SECTION("nothing is to be captured any more") {
        auto& wqe = *reinterpret_cast<abi::SqWqe*>(p.a.sq_slot(0));
        wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Sges);
    }
    p.sa.ring(p.a.slot_number);
    std::thread thread([&] { p.w.shard.run(); });
    for (int i = 0; i < 10000 && p.w.shard.load().sleeps.load() == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(p.w.shard.load().sleeps.load() != 0);
    p.w.shard.stop();
    thread.join();
}
