// SPDX-License-Identifier: BSD-3-Clause
// Frames that the engine holds for RC QPs, and how many: those that came too early (ADR 9), also where receives are
// shared, and those whose payload a slow program has not taken. IBTA volume 1, 9.7.5.1.3, 10.2.9.
#include <catch2/catch.hpp>

#include "engine/kept_frames.h"
#include "engine/placement.h"
#include "support/engine_world.h"
#include "support/wire_frames.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x100;

// Responders on NIC 1; their peers are the test.
struct World {
    explicit World(uint32_t count, payload::Path path = payload::Path::ProcessVm, uint32_t shared = 0)
        : s(w.add_session(path)), cq(w.add_cq(s, 1024)), peer(w.add_qp(s, cq, cq, 0)) {
        if (shared != 0) srq = &w.add_srq(s, shared);
        w.reorder_packets = 63;
        for (uint32_t i = 0; i < count; ++i) {
            qps.push_back(&w.add_qp(s, cq, cq, 1, {16, 128, 4, 4, 128}, srq == nullptr ? 0 : srq->id));
            REQUIRE(w.connect_one(*qps.back(), peer, 3, 8, kPsn) == 0);
        }
        key = w.add_mr(s, memory.data(), memory.size());
    }
    void arrives(size_t who, wire::Opcode op, uint32_t psn, uint32_t bytes = 16) {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(op);
        bth.psn = psn;
        bth.dest_qp = qps[who]->qpn;
        wire::ExtHeaders ext;
        ext.reth = {reinterpret_cast<uintptr_t>(&memory[psn % 256 * 64]), key, bytes};
        const std::vector<std::byte> payload(bytes, std::byte(psn));
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, payload)));
        w.turns(4, 10);
    }
    std::pair<uint32_t, uint64_t> received() {
        abi::Cqe e;
        if (!cq.poll(e)) return {};
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
        return {e.qpn, e.wr_id};
    }
    void post(uint64_t wr_id) { srq->post(wr_id, sge(&memory[wr_id * 64], 64, key)); }
    EngineWorld w;
    AppSession& s;
    AppCq& cq;
    AppQp& peer;
    AppSrq* srq = nullptr;
    std::vector<AppQp*> qps;
    std::vector<uint8_t> memory = std::vector<uint8_t>(65536);
    uint32_t key = 0;
};

}  // namespace

TEST_CASE("an early SEND takes its receive of the SRQ when its turn comes", "[engine][reorder][10.2.9]") {
    World t(2, payload::Path::ProcessVm, 8);
    for (uint64_t i = 1; i <= 3; ++i) t.post(i);
    const uint32_t early = t.qps[0]->qpn, other = t.qps[1]->qpn;
    t.arrives(0, RcSendOnly, kPsn + 1);
    CHECK(t.srq->consumed() == 0);
    t.arrives(1, RcSendOnly, kPsn);
    CHECK(t.received() == std::pair{other, uint64_t{1}});
    t.arrives(0, RcSendOnly, kPsn);
    CHECK(t.received() == std::pair{early, uint64_t{2}});
    CHECK(t.received() == std::pair{early, uint64_t{3}});
    CHECK(t.srq->consumed() == 3);
    CHECK(t.w.counter(1, Counter::naks_sent) == 0);
}

TEST_CASE("no receive is left for the early one: it is refused, and taken when it comes again",
          "[engine][reorder][9.7.5.2.8]") {
    World t(1, payload::Path::ProcessVm, 8);
    t.post(1);
    t.arrives(0, RcSendOnly, kPsn + 1);
    t.arrives(0, RcSendOnly, kPsn);
    CHECK(t.received().second == 1);
    CHECK(t.received().second == 0);
    CHECK(t.w.counter(1, Counter::out_of_buffer) == 1);
    t.post(2);
    t.arrives(0, RcSendOnly, kPsn + 1);
    CHECK(t.received().second == 2);
    CHECK(t.srq->consumed() == 2);
}

TEST_CASE("a session keeps so many early frames and no more; nothing of them is left behind", "[engine][reorder]") {
    constexpr uint32_t kQps = engine::KeptFrames::kPerSession / 63 + 2;
    World t(kQps);
    uint32_t sent = 0;
    for (size_t i = 0; i < kQps; ++i)
        for (uint32_t ahead = 1; ahead <= 63; ++ahead, ++sent) t.arrives(i, RcWriteOnly, kPsn + ahead);
    REQUIRE(sent > engine::KeptFrames::kPerSession);
    // The caches have two stocks beside.
    CHECK(t.w.pool.out() >= engine::KeptFrames::kPerSession);
    CHECK(t.w.pool.out() <= engine::KeptFrames::kPerSession + 2 * 128);
    CHECK(t.w.counter(1, Counter::naks_sent) >= 1);  // those for which there was no room are asked for at once
    for (size_t i = 0; i < 2; ++i) t.arrives(i, RcWriteOnly, kPsn);  // closes the gap
    for (AppQp* q : t.qps) CHECK(t.w.run_until([&] { return t.w.shard.destroy_qp(q->qpn); }));
    t.w.turns(10);
    CHECK(t.w.pool.out() <= 2 * 128);
    CHECK(t.memory[(kPsn + 63) % 256 * 64] == uint8_t(kPsn + 63));
}

TEST_CASE("an atomic result that waited for room is placed when there is some", "[engine][reorder]") {
    EngineWorld w;
    w.reorder_packets = 63;
    w.dma_window = 2;
    w.agents_run = false;
    AppSession& s = w.add_session(payload::Path::Agent);
    AppCq& cq = w.add_cq(s);
    AppQp &peer = w.add_qp(s, cq, cq, 0), &q = w.add_qp(s, cq, cq, 1);
    REQUIRE(w.connect_one(q, peer, 3, 14, kPsn) == 0);
    std::vector<uint8_t> memory(64);
    const uint32_t key = w.add_mr(s, memory.data(), memory.size());
    for (const auto op : {WrOpcode::RdmaRead, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd})
        q.post_send(make_wqe(op), {sge(&memory[q.sq_producer * 8], 8, key)});
    w.turns(4, 10);
    uint32_t psn = kPsn;
    for (const auto op : {RcReadResponseOnly, RcReadResponseOnly, RcAtomicAcknowledge}) {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(op);
        bth.psn = psn++;
        bth.dest_qp = q.qpn;
        wire::ExtHeaders ext;
        ext.aeth = {0x1f, psn - kPsn};  // ACK without credits
        ext.atomic_ack_eth.original = 7;
        const size_t bytes = op == RcAtomicAcknowledge ? 0 : 8;
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, std::vector<std::byte>(bytes))));
        w.turns(4, 10);
    }
    w.agents_run = true;
    abi::Cqe e;
    for (int i = 0; i < 3; ++i) {
        REQUIRE(w.wait_cqe(cq, e, 20));  // without a timer's help
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
    }
    CHECK(memory[16] == 7);
}

TEST_CASE("receives that are posted are not refused as missing while the program is slow", "[engine][9.7.4.1.4]") {
    const bool shared = GENERATE(false, true);
    constexpr uint32_t kMessages = 120;  // beyond the window of receives in the core, below what a session may hold
    World t(1, payload::Path::Agent, shared ? 128 : 0);
    t.w.agents_run = false;
    for (uint64_t i = 1; i <= kMessages; ++i) {
        if (shared)
            t.post(i);
        else
            t.qps[0]->post_recv(i, {sge(&t.memory[i * 64], 64, t.key)});
    }
    for (uint32_t i = 0; i < kMessages; ++i) t.arrives(0, RcSendOnly, kPsn + i);
    CHECK(t.w.counter(1, Counter::out_of_buffer) == 0);
    CHECK(t.w.counter(1, Counter::responder_backlog_drops) != 0);
    t.w.agents_run = true;
    uint64_t next = 1;
    const auto all = [&] {
        for (auto r = t.received(); r.second != 0; r = t.received()) CHECK(r.second == next++);
        return next == kMessages + 1;
    };
    t.w.run_until(all, 100);
    for (int round = 0; round < 4 && !all(); ++round)  // the requester goes back
        for (auto i = static_cast<uint32_t>(next - 1); i < kMessages; ++i) {
            t.arrives(0, RcSendOnly, kPsn + i);
            (void)t.w.run_until(all, 10);
        }
    CHECK(all());
}

TEST_CASE("a program that does not take its payload: frames a session, and a few for each other QP of it", "[engine]") {
    constexpr uint32_t kSession = engine::Placement::kHeldPerSession, kQp = engine::Placement::kHeldPerQp;
    World t(2, payload::Path::Agent);
    t.w.agents_run = false;
    for (uint32_t i = 0; i < kSession + 10; ++i) t.arrives(0, RcWriteOnly, kPsn + i);
    CHECK(t.w.counter(1, Counter::responder_backlog_drops) == 10);
    for (uint32_t i = 0; i < kQp + 5; ++i) t.arrives(1, RcWriteOnly, kPsn + i);
    CHECK(t.w.counter(1, Counter::responder_backlog_drops) == 10 + 5);
    // What was dropped comes again, and nothing is wrong.
    t.w.agents_run = true;
    t.w.turns(200);
    for (uint32_t i = kSession; i < kSession + 10; ++i) t.arrives(0, RcWriteOnly, kPsn + i);
    for (uint32_t i = kQp; i < kQp + 5; ++i) t.arrives(1, RcWriteOnly, kPsn + i);
    t.w.turns(200);
    for (uint32_t i = 0; i < kSession + 10; ++i) CHECK(t.memory[(kPsn + i) % 256 * 64] == uint8_t(kPsn + i));
    CHECK(t.w.counter(1, Counter::responder_backlog_drops) == 10 + 5);
    for (const AppQp* q : t.qps) {
        transport::QpAttr attr;
        REQUIRE(t.w.shard.query_qp(q->qpn, &attr));
        CHECK(attr.state == QpState::Rts);
    }
    for (AppQp* q : t.qps) CHECK(t.w.run_until([&] { return t.w.shard.destroy_qp(q->qpn); }));
    CHECK(t.w.pool.out() <= 2 * 128);
}

TEST_CASE("packets that were kept find room when their turn comes, however many frames are held", "[engine][reorder]") {
    // Each program keeps what it may, its gaps are closed by packets that need no room, and it takes nothing. All
    // together there is room for less by kOthers.
    constexpr uint32_t kKept = engine::KeptFrames::kPerSession, kAhead = 63, kQps = (kKept + kAhead - 1) / kAhead;
    constexpr uint32_t kPrograms = engine::Placement::kHeldFrames / kKept, kOthers = 100;
    constexpr uint32_t kAtOnce = engine::KeptFrames::kPerShard / kKept;
    EngineWorld w;
    w.pool.add(12000);
    w.agents_run = false;
    w.reorder_packets = kAhead;
    std::vector<uint8_t> memory(4096);
    AppSession& peers = w.add_session();
    AppCq& peer_cq = w.add_cq(peers);
    AppQp& peer = w.add_qp(peers, peer_cq, peer_cq, 0);
    struct Responder {
        AppQp* qp;
        uint32_t key;
    };
    using Program = std::vector<Responder>;
    const auto make_program = [&](uint32_t qps) {
        AppSession& s = w.add_session(payload::Path::Agent);
        AppCq& cq = w.add_cq(s, 16);
        const uint32_t key = w.add_mr(s, memory.data(), memory.size());
        Program program;
        for (uint32_t i = 0; i < qps; ++i) {
            program.push_back({&w.add_qp(s, cq, cq, 1, {16, 16, 1, 1, 16}), key});
            REQUIRE(w.connect_one(*program.back().qp, peer, 3, 8, kPsn) == 0);
        }
        return program;
    };
    const auto arrives = [&](const Responder& to, uint32_t psn, uint32_t bytes) {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(RcWriteOnly);
        bth.psn = psn;
        bth.dest_qp = to.qp->qpn;
        wire::ExtHeaders ext;
        ext.reth = {reinterpret_cast<uintptr_t>(memory.data()), to.key, bytes};
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, std::vector<std::byte>(bytes))));
    };
    std::vector<Program> programs{make_program(1)};
    for (uint32_t i = 0; i < kOthers; ++i) arrives(programs[0][0], kPsn + i, 16);
    w.turns(4, 10);
    while (programs.size() <= kPrograms) {
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            programs.push_back(make_program(kQps));
            for (const Responder& to : programs.back()) {
                for (uint32_t ahead = 1; ahead <= kAhead; ++ahead) arrives(to, kPsn + ahead, 16);
                w.turns(4, 10);
            }
        }
        for (uint32_t i = kAtOnce; i > 0; --i) {
            for (const Responder& to : programs[programs.size() - i]) arrives(to, kPsn, 0);
            w.turns(4, 10);
        }
    }
    CHECK(w.pool.out() >= engine::Placement::kHeldFrames - engine::Placement::kHeldFramesReserved);
    CHECK(w.pool.out() <= engine::Placement::kHeldFrames + 2 * 128);
    CHECK(w.counter(1, Counter::responder_backlog_drops) != 0);
    w.agents_run = true;
    for (const Program& program : programs)
        for (const Responder& to : program) CHECK(w.run_until([&] { return w.shard.destroy_qp(to.qp->qpn); }));
    CHECK(w.pool.out() <= 2 * 128);
}
