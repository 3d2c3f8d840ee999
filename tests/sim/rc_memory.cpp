// SPDX-License-Identifier: BSD-3-Clause
// Memory that fails or is slow, under every operation, at either side: the error belongs to its own work request, both
// sides see it, nothing else is completed wrongly. IBTA volume 1, 9.9.2 (requester), 9.9.3 (responder), 10.8.3.3.
#include <catch2/catch.hpp>

#include "tests/sim/workload.h"

using namespace rocemu;
using namespace rocemu::sim;
using enum rocemu::WcStatus;

namespace {

constexpr uint64_t kLocal = 0x2000, kReceive = 0x3000, kTarget = 0x100000;
constexpr uint32_t kWindow = 0x7701;

std::vector<Sge> at(uint64_t offset, uint32_t bytes) {
    return {{kMemoryBase + offset, bytes, kKey}};
}
std::vector<WcStatus> statuses(const std::vector<transport::Completion>& all) {
    std::vector<WcStatus> s;
    for (const auto& c : all) s.push_back(c.status);
    return s;
}
using Statuses = std::vector<WcStatus>;

void post(Endpoint& e, WrOpcode op, uint32_t bytes) {
    PostedSend wr;
    wr.wqe.opcode = op;
    wr.wqe.flags = send_flags::kSignaled;
    wr.wqe.remote_addr = kMemoryBase + kTarget;
    wr.wqe.rkey = kKey;
    if (op == WrOpcode::SendWithInv) wr.wqe.imm_data = kWindow;
    wr.sges = at(kLocal, bytes);
    e.send(std::move(wr));
}

PairOptions of_type(QpType type) {
    PairOptions o;
    o.config.type = type;
    return o;
}

// Bytes [from, to) of the message's place at the side that fails.
struct Place {
    uint32_t from, to;
};

}  // namespace

TEST_CASE("RC: failing and slow memory under every operation, anywhere in the message", "[sim][rc][9.9.2][9.9.3]") {
    for (const WrOpcode op : kRcOperations)
        for (const bool at_requester : {true, false})
            for (const Duration slow : {Duration{0}, 20 * kMicrosecond})
                for (const Place place : {Place{0, 4}, Place{1500, 1504}, Place{2999, 3000}}) {
                    const uint32_t bytes = has_eight_bytes(op) ? 8 : 3000;
                    if (place.from >= bytes) continue;
                    QpPair p;
                    p.a.memory.slowest = p.b.memory.slowest = slow;
                    Memory& m = at_requester ? p.a.memory : p.b.memory;
                    const uint64_t base = at_requester ? kLocal : is_send(op) ? kReceive : kTarget;
                    m.fault_from = kMemoryBase + base + place.from;
                    m.fault_to = kMemoryBase + base + place.to;
                    p.b.bind_window(kWindow);
                    p.b.receive(at(kReceive, 3000));
                    p.b.receive(at(0x6000, 3000));
                    p.a.send(WrOpcode::RdmaWrite, at(0x8000, 3000), kMemoryBase + 0x110000);
                    post(p.a, op, bytes);
                    p.a.send(WrOpcode::RdmaWrite, at(0x8000, 10), kMemoryBase + 0x110000);
                    p.settle();
                    CAPTURE(static_cast<int>(op), at_requester, slow, place.from);
                    CHECK(statuses(p.a.sends) == Statuses{Success, at_requester ? LocProtErr : RemOpErr, WrFlushErr});
                    CHECK(p.a.qp.state() == QpState::Err);
                    CHECK(p.healthy());
                    if (at_requester) continue;
                    CHECK(p.b.qp.state() == QpState::Err);
                    // A receive that was in use carries the error; the others are flushed.
                    CHECK(statuses(p.b.receives) == Statuses{is_send(op) ? LocProtErr : WrFlushErr, WrFlushErr});
                }
}

TEST_CASE("UC: failing and slow memory under every operation", "[sim][uc][9.9.2][9.9.3]") {
    for (const WrOpcode op : {WrOpcode::Send, WrOpcode::SendWithImm, WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImm})
        for (const bool at_requester : {true, false})
            for (const Duration slow : {Duration{0}, 20 * kMicrosecond}) {
                QpPair p(of_type(QpType::Uc));
                p.a.memory.slowest = p.b.memory.slowest = slow;
                Memory& m = at_requester ? p.a.memory : p.b.memory;
                m.fault_from = kMemoryBase + (at_requester ? kLocal : is_send(op) ? kReceive : kTarget) + 1500;
                m.fault_to = m.fault_from + 1;
                p.b.receive(at(kReceive, 3000));
                post(p.a, op, 3000);
                p.settle();
                CAPTURE(static_cast<int>(op), at_requester, slow);
                REQUIRE(p.a.sends.size() == 1);
                CHECK(p.a.sends[0].status == (at_requester ? LocProtErr : Success));
                CHECK(p.a.qp.state() == (at_requester ? QpState::Sqe : QpState::Rts));
                CHECK(p.healthy());
                // Nobody is told what failed at the other side; a receive must not say that it succeeded.
                for (const auto& c : p.b.receives) CHECK(c.status != Success);
            }
}
