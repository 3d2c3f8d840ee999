// SPDX-License-Identifier: BSD-3-Clause
// What a turn of poll_transmit holds: responses and requests, whose gather may fail as a whole or from a packet on.
// See transport/qp.h, "contract with the caller". IBTA volume 1, 9.7.5.1.8.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x200, kTheirs = 0x100;
constexpr uint8_t kAck = 0x1f, kNakSequence = 0x60;
constexpr uint64_t kRemote = kMemoryBase + 0x10000;

std::vector<Sge> local(uint32_t bytes, uint64_t offset = 0x1000) {
    return {{kMemoryBase + offset, bytes, kKey}};
}

}  // namespace

TEST_CASE("a peer that always reads does not keep our requests from leaving", "[sim][rc]") {
    Probe p;
    constexpr uint32_t kBytes = 1 << 20;
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase, kKey, kBytes};
    for (uint32_t i = 0; i < 3; ++i) p.hand_in(RcReadRequest, kTheirs + i * (kBytes >> 10), ext);
    transport::SendWqe wqe;
    wqe.length = 10;
    const Sge sge{kMemoryBase, 10, kKey};
    static transport::TxBatch batch;
    uint32_t requests = 0, responses = 0;
    for (uint32_t turn = 0; turn < 40; ++turn) {
        if (turn % 8 == 0) p.e.qp.post_send(wqe, {&sge, 1}, p.now);
        batch.clear();
        CHECK(p.e.qp.poll_transmit(p.now, 1 << 20, batch));
        uint32_t here = 0;
        for (uint32_t i = 0; i < batch.count; ++i) here += wire::opcode_info(batch.packets[i].opcode).is_request();
        // If their gather fails, no response is lost with them.
        CHECK((here == 0 || here == batch.count));
        requests += here;
        responses += batch.count - here;
    }
    CHECK(requests == 5);
    CHECK(responses == 35 * transport::kTxBatchPackets);
}

TEST_CASE("a gather that fails for a packet acknowledged meanwhile: what stood behind it is sent", "[sim][requester]") {
    Probe p;
    p.e.send(WrOpcode::RdmaWrite, local(3000), kRemote);
    p.e.send(WrOpcode::RdmaWrite, local(100, 0x4000), kRemote);
    CHECK(p.poll().size() == 4);
    // All of it again; while the payload is fetched, an ACK comes, and the program takes its memory away.
    wire::ExtHeaders ext;
    ext.aeth = {kNakSequence, 0};
    p.hand_in(RcAcknowledge, kPsn, ext);
    static transport::TxBatch batch;
    batch.clear();
    p.e.qp.poll_transmit(p.now, 1 << 20, batch);
    REQUIRE(batch.count == 4);
    uint32_t acked = 0;
    SECTION("a whole message") {
        acked = 3;
    }
    SECTION("a part of one") {
        acked = 1;
    }
    ext.aeth = {kAck, 0};
    p.hand_in(RcAcknowledge, kPsn + acked - 1, ext);
    p.e.qp.handle_gather_failed(batch.packets[0].gather_tag, p.now);
    const Packets again = p.poll();
    CHECK(again.size() == 4 - acked);
    CHECK(again.at(0).psn() == kPsn + acked);
    p.answer(kPsn + 3, kAck);
    CHECK(p.e.sends.size() == 2);
    CHECK(p.e.qp.state() == QpState::Rts);
}

TEST_CASE("the gather of a repeated response fails: the requests behind it are sent", "[sim][rc]") {
    Probe p;
    CHECK(p.read(kTheirs, 0, 100).size() == 1);
    p.e.memory.fault_from = kMemoryBase;
    p.e.memory.fault_to = kMemoryBase + 1;
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase, kKey, 100};
    p.hand_in(RcReadRequest, kTheirs, ext);
    p.e.send(WrOpcode::Send, local(10));
    const Packets out = p.poll();
    REQUIRE(out.size() == 2);
    CHECK(out[0].opcode() == RcAcknowledge);  // a NAK that the peer has no use for
    CHECK(out[1].opcode() == RcSendOnly);
    CHECK(p.e.qp.state() == QpState::Rts);
}

TEST_CASE("the gather of a response fails in front of a fatal NAK: the peer gets the older one", "[sim][responder][9.7.5.2.6]") {
    Probe p;
    p.e.memory.fault_from = kMemoryBase;
    p.e.memory.fault_to = kMemoryBase + 1;
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase, kKey, 100};
    p.hand_in(RcReadRequest, kTheirs, ext);
    ext.reth = {kMemoryBase, kKey + 1, 4};
    p.hand_in(RcWriteOnly, kTheirs + 1, ext, 4);
    const Packets out = p.poll();
    REQUIRE(out.size() == 1);
    CHECK(out[0].opcode() == RcAcknowledge);
    CHECK(out[0].psn() == kTheirs);
    CHECK(out[0].syndrome() == wire::Aeth::nak(0, wire::NakCode::RemoteOperationalError).syndrome);
    CHECK(p.e.qp.state() == QpState::Err);
}

TEST_CASE("a gather that fails after a reset means nothing to the next connection", "[sim][requester]") {
    PairOptions o;
    Probe p(o);
    static transport::TxBatch batch;
    batch.clear();
    transport::SendWqe wqe;
    wqe.length = 10;
    const Sge sge{kMemoryBase, 10, kKey};
    p.e.qp.post_send(wqe, {&sge, 1}, p.now);
    p.e.qp.poll_transmit(p.now, 1000, batch);
    REQUIRE(batch.count == 1);
    transport::QpAttr attr = p.e.qp.attr();
    p.e.set_state(QpState::Reset);
    p.e.connect(attr);
    p.e.qp.post_send(wqe, {&sge, 1}, p.now);
    p.e.qp.handle_gather_failed(batch.packets[0].gather_tag, p.now);
    CHECK(p.poll().size() == 1);
    CHECK(p.e.qp.state() == QpState::Rts);
}
