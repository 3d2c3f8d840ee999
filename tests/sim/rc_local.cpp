// SPDX-License-Identifier: BSD-3-Clause
// Work requests that send nothing: binding windows of type 2 and local invalidation, in their place between others.
// IBTA volume 1, 10.6.6, 10.6.7, 10.8.3.3.
#include <catch2/catch.hpp>

#include "tests/sim/qp_pair.h"

using namespace rocemu;
using namespace rocemu::sim;

namespace {

constexpr uint32_t kWindow = 0x7701;

struct Scene {
    QpPair pair;

    explicit Scene(double faults = 0) {
        pair.set_faults({faults, faults, faults, faults});
        memory::Region r = *pair.b.keys.find(kKey);
        r.key = kBindable;
        r.access |= access_flags::kMwBind;
        pair.b.keys.insert(r);
        memory::Region w;
        w.key = kWindow;
        w.pd = kPd;
        w.kind = memory::KeyKind::WindowType2;
        pair.b.keys.insert(w);
    }
    void bind(uint32_t key, uint64_t length = 0x1000, uint32_t flags = send_flags::kSignaled) {
        PostedSend wr;
        wr.wqe.opcode = WrOpcode::BindMw;
        wr.wqe.flags = static_cast<uint8_t>(flags);
        wr.wqe.rkey = key;
        wr.wqe.imm_data = kBindable;
        wr.wqe.remote_addr = kMemoryBase + 0x4000;
        wr.wqe.compare_add = length;
        wr.wqe.swap = access_flags::kRemoteWrite | access_flags::kRemoteRead;
        pair.b.send(std::move(wr));
    }
    void invalidate(uint32_t key, uint32_t flags = send_flags::kSignaled) {
        PostedSend wr;
        wr.wqe.opcode = WrOpcode::LocalInv;
        wr.wqe.flags = static_cast<uint8_t>(flags);
        wr.wqe.imm_data = key;
        pair.b.send(std::move(wr));
    }
    // A of the pair reads 8 bytes through the window.
    WcStatus reach(uint32_t key) {
        const size_t before = pair.a.sends.size();
        pair.a.send(WrOpcode::RdmaRead, {{kMemoryBase, 8, kKey}}, kMemoryBase + 0x4010, key);
        REQUIRE(pair.run([&] { return pair.a.sends.size() > before; }));
        return pair.a.sends.back().status;
    }
    [[nodiscard]] bool done(size_t n) {
        return pair.run([&] { return pair.b.sends.size() >= n; });
    }
};

}  // namespace

TEST_CASE("bind, use, invalidate, bind again", "[sim][rc][10.6.7.2][10.6.6]") {
    Scene s;
    s.bind(kWindow + 1);
    REQUIRE(s.done(1));
    CHECK(s.pair.b.sends[0].status == WcStatus::Success);
    CHECK(s.pair.b.sends[0].opcode == WcOpcode::BindMw);
    CHECK(s.reach(kWindow + 1) == WcStatus::Success);
    s.invalidate(kWindow + 1);
    s.bind(kWindow + 2);
    REQUIRE(s.done(3));
    CHECK(s.pair.b.sends[1].status == WcStatus::Success);
    CHECK(s.pair.b.sends[1].opcode == WcOpcode::LocalInv);
    CHECK(s.pair.b.sends[2].status == WcStatus::Success);
    CHECK(s.reach(kWindow + 2) == WcStatus::Success);
    CHECK(s.reach(kWindow + 1) == WcStatus::RemAccessErr);
}

TEST_CASE("local operations complete in their place, also on a bad link", "[sim][rc][10.8.3.3]") {
    for (const double rate : {0.0, 0.1}) {
        Scene s(rate);
        size_t posted = 0;
        for (uint32_t i = 1; i <= 40; ++i) {
            s.pair.b.send(WrOpcode::RdmaWrite, {{kMemoryBase, 2500, kKey}}, kMemoryBase + 0x1000, kKey);
            s.bind(kWindow + i, 0x1000,
                   i % 3 == 0 ? send_flags::kSignaled | send_flags::kFence : send_flags::kSignaled);
            s.pair.b.send(WrOpcode::RdmaRead, {{kMemoryBase, 2500, kKey}}, kMemoryBase + 0x1000, kKey);
            s.invalidate(kWindow + i);
            posted += 4;
        }
        CAPTURE(rate);
        REQUIRE(s.done(posted));
        const WcOpcode order[] = {WcOpcode::RdmaWrite, WcOpcode::BindMw, WcOpcode::RdmaRead, WcOpcode::LocalInv};
        for (size_t i = 0; i < posted; ++i) {
            CHECK(s.pair.b.sends[i].status == WcStatus::Success);
            CHECK(s.pair.b.sends[i].opcode == order[i % 4]);
        }
        CHECK(s.pair.healthy());
    }
}

TEST_CASE("a bind against the rules fails in its turn and ends the QP", "[sim][rc][10.6.7.2]") {
    Scene s;
    s.pair.b.send(WrOpcode::RdmaWrite, {{kMemoryBase, 2500, kKey}}, kMemoryBase + 0x1000, kKey);
    s.bind(kWindow + 1);
    s.bind(kWindow + 2);  // still bound
    s.invalidate(kWindow + 1);
    REQUIRE(s.done(4));
    CHECK(s.pair.b.sends[0].status == WcStatus::Success);
    CHECK(s.pair.b.sends[1].status == WcStatus::Success);
    CHECK(s.pair.b.sends[2].status == WcStatus::MwBindErr);
    CHECK(s.pair.b.sends[3].status == WcStatus::WrFlushErr);
    CHECK(s.pair.b.qp.state() == QpState::Err);
    CHECK(s.pair.b.keys.may_invalidate(kWindow + 1, kPd, s.pair.b.qp.config().qpn));
}

TEST_CASE("local invalidation of a region is an error", "[sim][rc][case24][10.6.6]") {
    Scene s;
    s.invalidate(kBindable);
    REQUIRE(s.done(1));
    CHECK(s.pair.b.sends[0].status == WcStatus::MwBindErr);
}

TEST_CASE("RESET ends the windows of the QP", "[sim][rc][10.6.7.2]") {
    Scene s;
    s.bind(kWindow + 1);
    REQUIRE(s.done(1));
    s.pair.b.set_state(QpState::Reset);
    CHECK_FALSE(s.pair.b.keys.may_invalidate(kWindow + 1, kPd, s.pair.b.qp.config().qpn));
    CHECK(s.pair.b.keys.find(kBindable)->windows == 0);
}
