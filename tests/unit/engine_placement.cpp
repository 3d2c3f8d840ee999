// SPDX-License-Identifier: BSD-3-Clause
// Payload that reaches a program through its agent, turn by turn: in the order of the packets, and not after its memory
// was deregistered.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "engine/placement.h"
#include "support/agent_pair.h"
#include "support/wire_frames.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

uint64_t number_at(const std::vector<uint8_t>& memory, size_t offset) {
    uint64_t value;
    std::memcpy(&value, &memory[offset], sizeof value);
    return value;
}

}  // namespace

TEST_CASE("nothing overtakes an atomic, also not from a later burst", "[engine][9.5]") {
    // How much comes in the first burst: what follows is another job then.
    const uint32_t first = GENERATE(1u, 2u);
    AgentPair p;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size());
    const uint64_t number = 1000, other = 77;
    std::memcpy(&p.src[0], &number, 8);
    std::memcpy(&p.src[8], &other, 8);
    p.post(WrOpcode::RdmaWrite, &p.src[0], 8, p.dst.data(), key);
    if (first == 2) p.post(WrOpcode::AtomicFetchAndAdd, &p.src[64], 8, p.dst.data(), key);
    p.turns_without_agent(50);
    if (first == 1) p.post(WrOpcode::AtomicFetchAndAdd, &p.src[64], 8, p.dst.data(), key);
    if (first == 2) p.post(WrOpcode::RdmaWrite, &p.src[8], 8, p.dst.data(), key);
    p.turns_without_agent(50);
    if (first == 1) p.post(WrOpcode::RdmaWrite, &p.src[8], 8, p.dst.data(), key);
    p.turns_without_agent(50);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
        CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::Success);
    }
    CHECK(number_at(p.src, 64) == number);
    CHECK(number_at(p.dst, 0) == other);
}

TEST_CASE("a later burst into another program's memory does not overtake the one before", "[engine][9.5]") {
    AgentPair p;
    AppSession& sc = p.w.add_session(payload::Path::Agent);
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), 64);
    // Memory of the third program that was imported into the protection domain of the second.
    memory::Region imported;
    imported.key = p.w.next_key += 256;
    imported.pd = p.sb.id;
    imported.access = 15;
    imported.iova = imported.va = reinterpret_cast<uintptr_t>(&p.dst[64]);
    imported.length = 64;
    imported.space = sc.id;
    p.w.shard.keys().insert(imported);
    std::fill(p.src.begin(), p.src.end(), uint8_t{1});
    p.sb.agent_runs = false;
    p.post(WrOpcode::RdmaWrite, p.src.data(), 8, p.dst.data(), key);
    p.w.turns(50);
    SECTION("a WRITE") {
        p.post(WrOpcode::RdmaWrite, p.src.data(), 8, &p.dst[64], imported.key);
    }
    SECTION("an atomic") {
        p.post(WrOpcode::AtomicFetchAndAdd, &p.src[64], 8, &p.dst[64], imported.key);
    }
    p.w.turns(50);
    CHECK(number_at(p.dst, 64) == 0);
    p.sb.agent_runs = true;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
        CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::Success);
    }
    CHECK(number_at(p.dst, 0) == 0x0101010101010101);
    CHECK(number_at(p.dst, 64) != 0);
}

TEST_CASE("what an agent did not fetch in time is not written into deregistered memory", "[engine][10.6.3]") {
    AgentPair p;
    const uint32_t first = p.w.add_mr(p.sb, p.dst.data(), 4096), key = p.w.add_mr(p.sb, &p.dst[8192], 4096);
    const auto how = GENERATE(values<const char*>({"the same burst", "a later burst", "no room for a job"}));
    CAPTURE(how);
    std::fill(p.src.begin(), p.src.end(), uint8_t{1});
    const auto burst_ends = [&] {
        if (std::strcmp(how, "the same burst") != 0) p.turns_without_agent(50);
    };
    p.post(WrOpcode::RdmaWrite, p.src.data(), 100, p.dst.data(), first);
    if (std::strcmp(how, "no room for a job") == 0) {
        burst_ends();
        p.post(WrOpcode::RdmaWrite, p.src.data(), 100, p.dst.data(), first);
    }
    burst_ends();
    p.post(WrOpcode::AtomicFetchAndAdd, &p.src[64], 8, p.dst.data(), first);
    p.post(WrOpcode::RdmaWrite, p.src.data(), 100, &p.dst[8192], key);
    p.turns_without_agent(50);
    REQUIRE(p.w.shard.keys().remove(key));
    uint64_t fence = 0;
    REQUIRE(p.w.run_until([&] { return p.w.shard.payload_passed(p.sb.id, fence); }));
    // From here on the memory is the program's own again.
    std::fill(p.dst.begin() + 8192, p.dst.end(), uint8_t{0});
    p.w.turns(200);
    CHECK(std::count(p.dst.begin() + 8192, p.dst.end(), 0) == static_cast<ptrdiff_t>(p.dst.size() - 8192));
}

TEST_CASE("what was allowed through a window is written, also if the window is invalidated right behind it",
          "[engine][9.4.1.1.3]") {
    AgentPair p;
    const uint32_t all = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kMwBind;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size(), all);
    memory::Region window;
    window.key = p.w.next_key += 256;
    window.pd = p.sb.id;
    window.kind = memory::KeyKind::WindowType2;
    p.w.shard.keys().insert(window);
    memory::WindowBind bind;
    bind.key = window.key + 1;
    bind.region = key;
    bind.pd = p.sb.id;
    bind.qpn = p.b.qpn;
    bind.access = access_flags::kRemoteWrite;
    bind.addr = reinterpret_cast<uintptr_t>(p.dst.data());
    bind.length = 4096;
    REQUIRE(p.w.shard.keys().bind(bind));
    std::fill(p.src.begin(), p.src.end(), uint8_t{7});
    for (uint64_t i = 0; i < 2; ++i) p.b.post_recv(i, {sge(&p.dst[8192], 4096, key)});
    // One burst, three runs: the window is unbound when the first of them is on its way.
    p.post(WrOpcode::Send, p.src.data(), 100, nullptr, 0);
    p.post(WrOpcode::RdmaWrite, p.src.data(), 100, p.dst.data(), bind.key);
    auto last = make_wqe(WrOpcode::SendWithInv);
    last.imm_data = bind.key;
    p.a.post_send(last, {sge(p.src.data(), 50, p.key_src)});
    p.turns_without_agent(50);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
        CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::Success);
    }
    CHECK(std::count(p.dst.begin(), p.dst.begin() + 4096, 7) == 100);
    CHECK_FALSE(p.w.shard.keys().may_invalidate(bind.key, p.sb.id, p.b.qpn));
}

TEST_CASE("the frame of an empty datagram stays until the area in front of it is placed", "[engine][ud]") {
    EngineWorld w;
    w.qp_type = QpType::Ud;
    AppSession& s = w.add_session(payload::Path::Agent);
    AppCq& cq = w.add_cq(s);
    AppQp& q = w.add_qp(s, cq, cq, 1);
    std::vector<uint8_t> memory(3 * 64);
    const uint32_t key = w.add_mr(s, memory.data(), memory.size());
    REQUIRE(w.activate(q) == 0);
    for (uint64_t i = 0; i < 3; ++i) q.post_recv(i, {sge(&memory[i * 64], 64, key)});
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
    bth.dest_qp = q.qpn;
    wire::ExtHeaders ext;
    ext.deth = {EngineWorld::kUdQkey, 5};
    const auto empty = make_frame(EngineWorld::route(0, 1), bth, ext, {});
    w.agents_run = false;
    // As many bursts as a QP has jobs, and one more.
    for (uint32_t i = 0; i < engine::Placement::kJobsPerQp; ++i) {
        REQUIRE(w.shard.send_raw(0, make_frame(EngineWorld::route(0, 1), bth, ext, std::vector<std::byte>(16))));
        w.turns(4);
    }
    REQUIRE(w.shard.send_raw(0, empty));
    w.turns(4);
    w.pool.scribble();
    w.agents_run = true;
    abi::Cqe e;
    for (uint64_t i = 0; i < 3; ++i) {
        REQUIRE(w.wait_cqe(cq, e, 100));
        CHECK(e.wr_id == i);
    }
    CHECK(e.byte_len == 40);
    CHECK(std::memcmp(&memory[2 * 64 + 20], &empty[14], 20) == 0);  // behind Ethernet: the IPv4 header
    CHECK(w.pool.out() <= 2 * 128);
}

TEST_CASE("nothing is flushed while the agent may still read it", "[engine][10.3.1.7]") {
    AgentPair p;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size());
    p.b.post_send(make_wqe(WrOpcode::Send, 5), {sge(p.dst.data(), 100, key)});
    p.b.post_send(make_wqe(WrOpcode::Send, 6), {sge(p.dst.data(), 100, key)});
    p.turns_without_agent(20);
    transport::QpAttr attr;
    attr.state = QpState::Err;
    REQUIRE(p.w.modify(p.b, attr, qp_attr_mask::kState) == 0);
    p.turns_without_agent(100);
    CHECK_FALSE(p.cq_b.poll(p.cqe));
    for (uint64_t id = 5; id <= 6; ++id) {
        REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe, 100));
        CHECK(p.cqe.wr_id == id);
        CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::WrFlushErr);
    }
    CHECK(p.w.run_until([&] { return p.w.shard.destroy_qp(p.b.qpn); }, 100));
}

TEST_CASE("a RESET that is refused does not stop the QP", "[engine]") {
    AgentPair p;
    const uint32_t key = p.w.add_mr(p.sb, p.dst.data(), p.dst.size());
    p.b.post_send(make_wqe(WrOpcode::Send, 5), {sge(p.dst.data(), 100, key)});
    p.a.post_recv(1, {sge(p.src.data(), 100, p.key_src)});
    p.turns_without_agent(20);
    transport::QpAttr attr;
    attr.state = QpState::Reset;
    attr.port_num = 1;
    CHECK(p.w.modify(p.b, attr, qp_attr_mask::kState | qp_attr_mask::kPort) == EINVAL);
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::Success);
    CHECK(p.cqe.wr_id == 5);
    p.post(WrOpcode::RdmaWrite, p.src.data(), 100, p.dst.data(), key);
    do {
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    } while (p.cqe.is_recv);
    CHECK(static_cast<WcStatus>(p.cqe.status) == WcStatus::Success);
}

TEST_CASE("a program that reports a fault of a QP that is gone ends nobody else's", "[engine][hostile]") {
    EngineWorld w;
    AppSession& peer_session = w.add_session();
    w.receive_stage = true;
    AppSession &gone = w.add_session(), &other = w.add_session();
    AppCq &cq = w.add_cq(peer_session), &cq_gone = w.add_cq(gone), &cq_other = w.add_cq(other);
    AppQp &peer = w.add_qp(peer_session, cq, cq, 0), &q = w.add_qp(gone, cq_gone, cq_gone, 1);
    REQUIRE(w.connect(peer, q) == 0);
    std::vector<uint8_t> memory(4096);
    const uint32_t from = w.add_mr(peer_session, memory.data(), 4096), to = w.add_mr(gone, memory.data(), 4096);
    q.post_recv(1, {sge(&memory[64], 64, to)});
    peer.post_send(make_wqe(WrOpcode::Send), {sge(memory.data(), 64, from)});
    abi::Cqe e;
    REQUIRE(w.wait_cqe(cq_gone, e));
    auto& stage = *gone.receive_stage->as<abi::ReceiveStage>();
    REQUIRE(stage.records[0].state.load() == abi::deferred_word(0, abi::DeferredState::Pending));
    REQUIRE(w.run_until([&] { return w.shard.destroy_qp(q.qpn); }));
    w.next_qpn = q.qpn;
    AppQp &next = w.add_qp(other, cq_other, cq_other, 1), &next_peer = w.add_qp(peer_session, cq, cq, 0);
    REQUIRE(next.qpn == q.qpn);
    REQUIRE(w.connect(next_peer, next) == 0);
    stage.records[0].state.store(abi::deferred_word(0, abi::DeferredState::FaultTold));
    w.turns(10);
    transport::QpAttr attr;
    REQUIRE(w.shard.query_qp(next.qpn, &attr));
    CHECK(attr.state == QpState::Rts);
}

TEST_CASE("what an agent did not fetch in time is not read from deregistered memory", "[engine][10.6.3]") {
    EngineWorld w;
    AppSession &agent = w.add_session(payload::Path::Agent), &sa = w.add_session(), &sb = w.add_session();
    AppCq &cq_a = w.add_cq(sa), &cq_b = w.add_cq(sb);
    AppQp &a = w.add_qp(sa, cq_a, cq_a, 0), &b = w.add_qp(sb, cq_b, cq_b, 1);
    REQUIRE(w.connect(a, b) == 0);
    std::vector<uint8_t> theirs(64, 1), ours(64, 2), dst(4096);
    // An imported region: of this protection domain, and of the other process.
    memory::Region imported;
    imported.key = w.next_key += 256;
    imported.pd = sa.id;
    imported.access = access_flags::kLocalWrite;
    imported.iova = imported.va = reinterpret_cast<uintptr_t>(theirs.data());
    imported.length = theirs.size();
    imported.space = agent.id;
    w.shard.keys().insert(imported);
    const uint32_t key = w.add_mr(sa, ours.data(), ours.size());
    const uint32_t to = w.add_mr(sb, dst.data(), dst.size());
    auto wqe = make_wqe(WrOpcode::RdmaWrite);
    wqe.remote_addr = reinterpret_cast<uintptr_t>(dst.data());
    wqe.rkey = to;
    a.post_send(wqe, {sge(theirs.data(), 64, imported.key), sge(ours.data(), 64, key)});
    w.agents_run = false;
    w.turns(50);
    const bool dereg = GENERATE(false, true);
    if (dereg) {
        REQUIRE(w.shard.keys().remove(key));
        uint64_t fence = 0;
        REQUIRE(w.run_until([&] { return w.shard.payload_passed(sa.id, fence); }, 10));
    }
    w.agents_run = true;
    abi::Cqe cqe;
    REQUIRE(w.wait_cqe(cq_a, cqe));
    CHECK(static_cast<WcStatus>(cqe.status) == (dereg ? WcStatus::LocProtErr : WcStatus::Success));
    CHECK(std::count(dst.begin(), dst.end(), 2) == (dereg ? 0 : 64));
}
