// SPDX-License-Identifier: BSD-3-Clause
// UC and datagram QPs in the engine: on shared receive queues, and packets that came before their receive. IBTA volume
// 1, 9.8.2, 9.8.3, 10.2.9.
#include <catch2/catch.hpp>

#include "support/engine_world.h"
#include "support/wire_frames.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

// One sender on NIC 0; two receivers on NIC 1 that share a queue. Messages come from hand-made frames.
struct World {
    explicit World(QpType type) : s(w.add_session()), cq(w.add_cq(s)), srq(w.add_srq(s, 8)) {
        w.qp_type = type;
        AppQp& peer = w.add_qp(s, cq, cq, 0);
        for (auto& q : qps) {
            q = &w.add_qp(s, cq, cq, 1, {16, 16, 4, 4, 128}, srq.id);
            REQUIRE((type == QpType::Ud ? w.activate(*q) : w.connect_one(*q, peer, 3, 0, 0x100)) == 0);
        }
        key = w.add_mr(s, memory.data(), memory.size());
    }
    void post(uint64_t wr_id) { srq.post(wr_id, sge(&memory[wr_id * 4096], 4096, key)); }
    void arrives(int who, wire::Opcode op, uint32_t psn, size_t bytes, uint32_t qkey = EngineWorld::kUdQkey) {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(op);
        bth.psn = psn;
        bth.dest_qp = qps[who]->qpn;
        wire::ExtHeaders ext;
        ext.deth = {qkey, 5};
        const std::vector<std::byte> payload(bytes, std::byte(psn));
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, payload)));
        w.turns(4);
    }
    // The receive that completed, or 0.
    uint64_t received() {
        abi::Cqe e;
        if (!cq.poll(e)) return 0;
        CHECK(static_cast<WcStatus>(e.status) == WcStatus::Success);
        return e.wr_id;
    }
    EngineWorld w;
    AppSession& s;
    AppCq& cq;
    AppSrq& srq;
    AppQp* qps[2];
    std::vector<uint8_t> memory = std::vector<uint8_t>(65536);
    uint32_t key = 0;
};

constexpr auto kUcFirst = wire::Opcode::UcSendFirst, kUcMiddle = wire::Opcode::UcSendMiddle,
               kUcLast = wire::Opcode::UcSendLast, kUcOnly = wire::Opcode::UcSendOnly;

}  // namespace

TEST_CASE("UC QPs on an SRQ: messages that interleave take a receive each", "[engine][uc][10.2.9]") {
    World t(QpType::Uc);
    for (uint64_t i = 1; i <= 3; ++i) t.post(i);
    t.arrives(0, kUcFirst, 0x100, 1024);
    t.arrives(1, kUcFirst, 0x100, 1024);
    CHECK(t.srq.consumed() == 2);
    t.arrives(1, kUcLast, 0x101, 10);
    CHECK(t.received() == 2);
    t.arrives(0, kUcLast, 0x101, 10);
    CHECK(t.received() == 1);
    t.arrives(1, kUcOnly, 0x102, 0);
    CHECK(t.received() == 3);
    CHECK(t.srq.consumed() == 3);
}

TEST_CASE("UC: the receive of a message that lost a packet is not lost with it", "[engine][uc][9.8.2.2.1][10.2.9]") {
    World t(QpType::Uc);
    for (uint64_t i = 1; i <= 3; ++i) t.post(i);
    t.arrives(0, kUcFirst, 0x100, 1024);
    SECTION("the gap is seen in the middle") { t.arrives(0, kUcMiddle, 0x102, 1024); }
    SECTION("the gap is seen at the next message, which is dropped too") { t.arrives(0, kUcFirst, 0x105, 7); }
    SECTION("several are dropped") {
        t.arrives(0, kUcMiddle, 0x102, 1024);
        for (uint32_t psn = 0x103; psn < 0x107; ++psn) t.arrives(0, kUcOnly, psn, 1025);
    }
    CHECK(t.received() == 0);
    CHECK(t.srq.consumed() == 1);
    t.arrives(0, kUcOnly, 0x110, 5);
    CHECK(t.received() == 1);  // it serves the next message of that QP
    t.arrives(1, kUcOnly, 0x100, 5);
    CHECK(t.received() == 2);
    t.arrives(0, kUcOnly, 0x111, 5);
    CHECK(t.received() == 3);
    CHECK(t.srq.consumed() == 3);
}

TEST_CASE("datagrams on an SRQ: one that does not fit takes nothing", "[engine][ud][9.8.3.1][10.2.9]") {
    World t(QpType::Ud);
    t.srq.post(1, sge(t.memory.data(), 139, t.key));
    t.post(2);
    t.arrives(0, wire::Opcode::UdSendOnly, 1, 100);
    CHECK(t.received() == 0);
    CHECK(t.srq.consumed() == 0);
    CHECK(t.w.counter(1, Counter::ud_no_buffer_drops) == 1);
    t.arrives(1, wire::Opcode::UdSendOnly, 1, 99);
    CHECK(t.received() == 1);
    t.arrives(0, wire::Opcode::UdSendOnly, 2, 100);
    CHECK(t.received() == 2);
    CHECK(t.srq.consumed() == 2);
}

TEST_CASE("packets of UC and UD wait for a receive of the SRQ, in order, and not for ever", "[engine][ud][uc]") {
    const auto type = GENERATE(QpType::Uc, QpType::Ud);
    const auto op = type == QpType::Uc ? kUcOnly : wire::Opcode::UdSendOnly;
    World t(type);
    for (uint32_t i = 0; i < 3; ++i) t.arrives(0, op, 0x100 + i, 16);
    CHECK(t.received() == 0);
    t.post(1);
    t.post(2);
    abi::Cqe e;
    const uint32_t header = type == QpType::Ud ? 40 : 0;
    for (uint64_t i = 1; i <= 2; ++i) {
        // Nobody rings for a shared queue: soon all the same.
        REQUIRE(t.w.run_until([&] { return t.cq.poll(e); }, 100, 10 * kMicrosecond));
        CHECK(e.wr_id == i);
        CHECK(t.memory[i * 4096 + header] == i - 1);
    }
    t.w.turns(300, kMillisecond);
    t.post(3);
    t.w.turns(300, kMillisecond);
    CHECK(t.received() == 0);  // too late for the third
    CHECK(t.w.counter(1, type == QpType::Ud ? Counter::ud_no_buffer_drops : Counter::uc_dropped_messages) == 1);
    CHECK(t.w.pool.out() <= 2 * 128);
}

TEST_CASE("a datagram with a wrong Q_Key does not wait for a receive", "[engine][ud][9.6.1.4]") {
    World t(QpType::Ud);
    t.arrives(0, wire::Opcode::UdSendOnly, 1, 16, EngineWorld::kUdQkey + 1);
    CHECK(t.w.counter(1, Counter::rx_qkey_mismatch) == 1);
}

TEST_CASE("a datagram on the heels of a RESET takes no receive of the life before", "[engine][ud]") {
    EngineWorld w;
    w.qp_type = QpType::Ud;
    AppSession& s = w.add_session();
    AppCq& cq = w.add_cq(s);
    AppQp& q = w.add_qp(s, cq, cq, 1, {16, 16, 4, 4, 128});
    std::vector<uint8_t> memory(8192);
    const uint32_t key = w.add_mr(s, memory.data(), memory.size());
    const auto arrives = [&] {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
        bth.dest_qp = q.qpn;
        wire::ExtHeaders ext;
        ext.deth = {EngineWorld::kUdQkey, 5};
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, std::vector<std::byte>(16))));
        w.turns(4);
    };
    REQUIRE(w.activate(q) == 0);
    for (uint64_t i = 1; i <= 10; ++i) q.post_recv(i, {sge(memory.data(), 4096, key)});
    transport::QpAttr reset;
    reset.state = QpState::Reset;
    REQUIRE(w.modify(q, reset, qp_attr_mask::kState) == 0);
    arrives();
    // The program learns of the RESET, and its queues begin anew.
    for (abi::QueueHeader* header : {&q.sq_header(), &q.rq_header()}) {
        header->producer.store(0);
        header->consumer.store(0);
    }
    q.rq_producer = 0;
    REQUIRE(w.activate(q) == 0);
    q.post_recv(99, {sge(&memory[4096], 4096, key)});
    arrives();
    abi::Cqe e;
    REQUIRE(cq.poll(e));
    CHECK(e.wr_id == 99);
    CHECK_FALSE(cq.poll(e));
    CHECK(std::all_of(memory.begin(), memory.begin() + 4096, [](uint8_t c) { return c == 0; }));
}
