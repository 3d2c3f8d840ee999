// SPDX-License-Identifier: BSD-3-Clause
// SQD: what was begun is finished, nothing else is begun or fails, and the program is told if it asked for that.
// IBTA volume 1, 10.3.1.5.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;

namespace {

constexpr uint32_t kPsn = 0x200;
constexpr uint8_t kAck = 0x1f;
constexpr uint64_t kRemote = kMemoryBase + 0x10000;

std::vector<Sge> local(uint32_t bytes, uint32_t key = kKey) {
    return {{kMemoryBase + 0x1000, bytes, key}};
}

void to_sqd(Probe& p, bool notify) {
    transport::QpAttr attr;
    attr.state = QpState::Sqd;
    attr.en_sqd_async_notify = 1;
    const uint32_t mask = qp_attr_mask::kState | (notify ? qp_attr_mask::kEnSqdAsyncNotify : 0);
    REQUIRE(p.e.qp.modify(attr, mask, p.now) == 0);
}

}  // namespace

TEST_CASE("SQD finishes what was begun, tells when drained, and RTS goes on", "[sim][requester][10.3.1.5]") {
    PairOptions o;
    o.config.window_packets = 2;
    Probe p(o);
    p.e.send(WrOpcode::RdmaWrite, local(4000), kRemote);
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 2);
    to_sqd(p, true);
    CHECK(p.e.qp.attr().sq_draining == 1);
    CHECK(p.answer(kPsn + 1, kAck).size() == 2);
    CHECK(p.e.events.empty());
    CHECK(p.answer(kPsn + 3, kAck).empty());
    CHECK(p.e.events == std::vector{AsyncEvent::SqDrained});
    CHECK(p.e.qp.attr().sq_draining == 0);
    CHECK(p.e.sends.size() == 1);
    p.e.set_state(QpState::Rts);
    CHECK(p.poll().size() == 1);
}

TEST_CASE("SQD: a WQE that was found wrong and not begun waits like the others", "[sim][requester][10.3.1.5]") {
    Probe p;
    p.e.send(WrOpcode::RdmaWrite, local(100), kRemote);
    p.e.send(WrOpcode::RdmaRead, local(100, 0x999), kRemote);
    CHECK(p.poll().size() == 1);
    to_sqd(p, true);
    CHECK(p.e.events.empty());
    p.answer(kPsn, kAck);
    p.poll();
    CHECK(p.e.events == std::vector{AsyncEvent::SqDrained});
    CHECK(p.e.qp.state() == QpState::Sqd);
    CHECK(p.e.sends.size() == 1);
    p.e.set_state(QpState::Rts);
    p.poll();
    CHECK(p.e.qp.state() == QpState::Err);
    REQUIRE(p.e.sends.size() == 2);
    CHECK(p.e.sends[1].status == WcStatus::LocProtErr);
}

// Here the error is due when the packets before it have left, and leads to SQE.
TEST_CASE("SQD, UC: a WQE that was found wrong and not begun waits like the others", "[sim][uc][10.3.1.5][10.3.1.6]") {
    PairOptions o;
    o.config.type = QpType::Uc;
    Probe p(o);
    static transport::TxBatch batch;
    batch.clear();
    transport::SendWqe wqe;
    wqe.opcode = WrOpcode::Send;
    wqe.length = 10;
    const Sge good{kMemoryBase, 10, kKey};
    p.e.qp.post_send(wqe, {&good, 1}, p.now);
    wqe.preset_error = WcStatus::LocQpOpErr;
    p.e.qp.post_send(wqe, {}, p.now);
    p.e.qp.poll_transmit(p.now, 1000, batch);
    REQUIRE(batch.count == 1);
    to_sqd(p, true);
    p.e.qp.handle_transmitted();
    CHECK(p.e.qp.state() == QpState::Sqd);
    CHECK(p.e.qp.poll_event() == AsyncEvent::SqDrained);
    p.e.set_state(QpState::Rts);
    p.poll();
    CHECK(p.e.qp.state() == QpState::Sqe);
}

TEST_CASE("SQ_DRAINED is for the transition that asked for it", "[sim][requester][10.3.1.5]") {
    Probe p;
    to_sqd(p, true);
    p.poll();
    CHECK(p.e.events == std::vector{AsyncEvent::SqDrained});
    p.e.set_state(QpState::Rts);
    to_sqd(p, false);
    p.poll();
    CHECK(p.e.qp.attr().sq_draining == 0);
    CHECK(p.e.events.size() == 1);
}
