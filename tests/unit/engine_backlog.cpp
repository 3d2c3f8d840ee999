// SPDX-License-Identifier: BSD-3-Clause
// A shard that has more to receive than it can: it receives first and nearly stops sending, or its port's ring overflows and
// UC and UD lose what nobody sends again.
#include <catch2/catch.hpp>

#include "support/busy_port.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

// 16 QPs with 64 WRITEs of 16 packets each, between two NICs of one shard.
struct World : EngineWorld {
    World() : EngineWorld(0) {
        qp_type = QpType::Uc;
        wrap_port = [this](engine::Port& real) -> engine::Port& { return ports.emplace_back(real, pool); };
        add_nics(0, 2);
        AppSession& s = add_session();
        AppCq& cq = add_cq(s, 4096);
        const uint32_t key = add_mr(s, memory.data(), memory.size(), 15, true);
        for (uint32_t i = 0; i < 16; ++i) {
            AppQp &a = add_qp(s, cq, cq, 0), &b = add_qp(s, cq, cq, 1);
            REQUIRE(connect(a, b) == 0);
            for (uint32_t m = 0; m < 64; ++m) {
                auto w = make_wqe(WrOpcode::RdmaWrite, m, send_flags::kSignaled);
                w.remote_addr = reinterpret_cast<uintptr_t>(memory.data());
                w.rkey = key;
                a.post_send(w, {{reinterpret_cast<uintptr_t>(memory.data()), 16 * 1024, key}});
            }
        }
    }
    std::deque<BusyPort> ports;
    std::vector<std::byte> memory{16 * 1024};
};

}  // namespace

TEST_CASE("behind a full ring little is sent, but something", "[engine]") {
    World w;
    constexpr uint32_t kPending = 1 << 17;
    w.ports[0].useless = kPending;
    w.turns(100);
    const uint64_t received = kPending - w.ports[0].useless, sent = w.ports[0].sent;
    CHECK(received == 100 * 8 * 64);
    CHECK(sent * 4 < received);
    CHECK(sent > 100);
}

TEST_CASE("with nothing to receive a turn sends as much as stays in the caches, and a batch", "[engine]") {
    World w;
    w.turns(10);
    CHECK(w.ports[0].sent >= 10 * 256);
    CHECK(w.ports[0].sent <= 10 * (256 + 64));
}

TEST_CASE("what a NIC sends to itself arrives, also behind a full ring", "[engine]") {
    std::deque<BusyPort> ports;  // outlives the world
    EngineWorld w(0);
    w.wrap_port = [&](engine::Port& real) -> engine::Port& {
        ports.emplace_back(real, w.pool).receives_own_frames = false;
        return ports.back();
    };
    w.add_nics(0, 1);
    AppSession& s = w.add_session();
    AppCq& cq = w.add_cq(s);
    AppQp &a = w.add_qp(s, cq, cq, 0), &b = w.add_qp(s, cq, cq, 0);
    REQUIRE(w.connect(a, b) == 0);
    b.post_recv(1, {});
    a.post_send(make_wqe(WrOpcode::Send));
    ports[0].useless = 1 << 20;
    abi::Cqe e;
    for (int i = 0; i < 2; ++i) CHECK(w.wait_cqe(cq, e, 100));
    CHECK(ports[0].useless != 0);
}
