// SPDX-License-Identifier: BSD-3-Clause
// End-to-end credits: what the responder promises, and that the requester keeps to it.
// IBTA volume 1, 9.7.7.2.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"
#include "tests/sim/workload.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

std::vector<Sge> local(uint32_t bytes, uint64_t offset = 0x1000) {
    return {{kMemoryBase + offset, bytes, kKey}};
}
constexpr uint64_t kRemote = kMemoryBase + 0x10000;
constexpr uint32_t kPsn = 0x200, kTheirs = 0x100;

}  // namespace

TEST_CASE("an ACK promises the receives that are posted", "[sim][responder][9.7.7.2]") {
    Probe p;
    for (int i = 0; i < 7; ++i) p.e.receive(local(2000));
    CHECK(int{p.inject(RcSendOnly, kTheirs, {}, 10)[0].syndrome()} == 5);  // 6 left: the code of 6
    // The message that is coming in has its receive.
    CHECK(int{p.inject(RcSendFirst, kTheirs + 1, {}, 1024)[0].syndrome()} == 5);
    CHECK(int{p.inject(RcSendLast, kTheirs + 2, {}, 10)[0].syndrome()} == 4);  // 5 left: 4 promised
    CHECK(int{p.write(RcWriteOnly, kTheirs + 3, 4, 4)[0].syndrome()} == 4);
    const Packets read = p.read(kTheirs + 4, 0, 3000);
    CHECK(int{read[0].syndrome()} == 4);
    CHECK(int{read[2].syndrome()} == 4);
    CHECK(int{p.fetch_add(kTheirs + 7, 64, 1)[0].syndrome()} == 4);
    // An answer with an older MSN promises what has been taken since as well: 3 messages.
    p.e.qp.set_receives_waiting(4);
    CHECK(int{p.read(kTheirs + 4, 0, 3000)[0].syndrome()} == wire::code_of_credits(5 + 4 + 1));
    while (p.e.receives.size() < 7) {
        const auto i = static_cast<uint32_t>(p.e.receives.size());
        p.inject(RcSendOnly, kTheirs + 6 + i, {}, 10);
    }
    p.e.qp.set_receives_waiting(0);
    CHECK(int{p.write(RcWriteOnly, kTheirs + 13, 4, 4)[0].syndrome()} == 0);
}

TEST_CASE("a QP on an SRQ promises nothing", "[sim][responder][9.7.7.2]") {
    PairOptions o;
    o.config.has_srq = true;
    Probe p(o);
    p.e.receive(local(100));
    CHECK(int{p.inject(RcSendOnly, kTheirs, {}, 10)[0].syndrome()} == wire::kNoCredits);
}

TEST_CASE("the requester keeps to the credits; without any one message goes at a time", "[sim][requester][9.7.7.2]") {
    Probe p;
    for (int i = 0; i < 10; ++i) p.e.send(WrOpcode::Send, local(2000));
    CHECK(p.poll().size() == 20);  // nothing is known of the peer yet
    for (int i = 0; i < 12; ++i) p.e.send(i == 3 ? WrOpcode::RdmaWriteWithImm : WrOpcode::Send, local(10), kRemote);
    const auto size = [&](uint32_t psn, uint8_t credits, uint32_t msn) { return p.answer(psn, credits, msn).size(); };
    p.e.send(WrOpcode::RdmaWrite, local(10), kRemote);
    // 12 more SENDs are waiting behind ten; message 10 is acknowledged with 3 credits.
    CHECK(size(kPsn + 19, 3, 10) == 3);
    CHECK(size(kPsn + 20, 3, 11) == 1);
    CHECK(size(kPsn + 20, 3, 11) == 0);  // said before
    CHECK(size(kPsn + 21, 0, 12) == 0);  // promises are kept, never taken back
    CHECK(size(kPsn + 22, 0, 13) == 0);
    Packets one = p.answer(kPsn + 23, 0, 14);
    REQUIRE(one.size() == 1);  // nothing outstanding: one message, that asks for an ACK
    CHECK(one[0].view.bth.ack_req);
    CHECK(size(kPsn + 24, 40 & 31, 16) == 1);  // an MSN from the future promises nothing
    CHECK(size(kPsn + 25, 31, 16) == 7);       // no flow control: the rest, the WRITE too
}

TEST_CASE("an ACK that nothing asked for brings credits", "[sim][requester][9.7.7.2][9.7.6.1.1]") {
    Probe p;
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 1);
    p.answer(kPsn, 0, 1);
    for (int i = 0; i < 5; ++i) p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 1);
    CHECK(p.answer(kPsn - 1, 3, 1).empty());  // an old one: not the newest acknowledged
    CHECK(p.answer(kPsn, wire::Aeth::rnr_nak(0, 1).syndrome, 1).empty());
    CHECK(p.answer(kPsn, 3, 1).size() == 2);  // one of the three is out
    CHECK(p.answer(kPsn, 3, 1).empty());
    CHECK(p.answer(kPsn + 3, wire::kNoCredits, 4).size() == 2);
    CHECK(p.e.count(Counter::unexpected_response) == 0);
    p.answer(kPsn + 5, wire::kNoCredits, 6);
    CHECK(p.e.sends.size() == 6);
}

TEST_CASE("WRITEs and READs use no credit and do not use up those of SENDs", "[sim][requester][9.7.7.2]") {
    Probe p;
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 1);
    p.answer(kPsn, 1, 1);
    for (int i = 0; i < 5; ++i) p.e.send(WrOpcode::RdmaWrite, local(10), kRemote);
    p.e.send(WrOpcode::RdmaRead, local(10), kRemote);
    p.e.send(WrOpcode::Send, local(10));
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 7);
}

// The receiver is slow: with credits the SENDs wait at the requester, and almost none meets an empty queue.
TEST_CASE("credit exhaustion is not a storm of RNR NAKs", "[sim][rc][case16][9.7.7.2]") {
    QpPair p;
    int posted = 0, sent = 1;
    for (; posted < 5; ++posted) p.b.receive(local(100));
    p.a.send(WrOpcode::Send, local(10));
    p.settle();
    for (; sent < 200; ++sent) p.a.send(WrOpcode::Send, local(10));
    // The application posts one receive for each completion, a while later.
    while (p.b.receives.size() < 200) {
        const size_t seen = p.b.receives.size();
        REQUIRE(p.run([&] { return p.b.receives.size() > seen; }, kSecond));
        p.run([] { return false; }, 3 * kMicrosecond);
        for (; posted < static_cast<int>(p.b.receives.size()) + 4; ++posted) p.b.receive(local(100));
    }
    p.settle();
    CHECK(p.a.sends.size() == 200);
    CHECK(p.b.count(Counter::out_of_buffer) == 0);
    CHECK(p.a.count(Counter::retransmitted_packets) == 0);
    CHECK(p.healthy());
}
