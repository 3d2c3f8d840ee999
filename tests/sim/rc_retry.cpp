// SPDX-License-Identifier: BSD-3-Clause
// When the requester goes back and when it gives up: ACK timer, RNR, retry counters, rounds, probes.
// IBTA volume 1, 9.7.5.2.8, 9.7.6.1.3, 9.9.2.1.
#include <catch2/catch.hpp>

#include "tests/sim/probe.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using enum wire::Opcode;

namespace {

constexpr uint32_t kPsn = 0x200;
constexpr uint8_t kAck = 0x1f, kNakSequence = 0x60, kRnr1 = 0x21, kRnrLongest = 0x20;

std::vector<Sge> local(uint32_t bytes, uint64_t offset = 0x1000, uint32_t key = kKey) {
    return {{kMemoryBase + offset, bytes, key}};
}

std::vector<uint32_t> psns(const Packets& p) {
    std::vector<uint32_t> all;
    for (const auto& c : p) all.push_back(c.psn());
    return all;
}

// Lets time run in small steps until the endpoint sends, or `limit` is over; returns what it sent.
Packets until_sent(Probe& p, Duration limit) {
    const Instant end = p.now + limit;
    while (p.now < end) {
        p.now = std::min(end, std::max(p.e.next_event(), p.now + 1));
        if (p.e.next_event() == kNever) return p.poll();
        if (Packets out = p.poll(); !out.empty()) return out;
        if (p.e.qp.state() == QpState::Err) return {};
    }
    return {};
}

}  // namespace

TEST_CASE("RETRY_EXC_ERR after 1 + retry_cnt transmissions, each wait within 1 to 4 times the formula",
          "[sim][requester][case18][9.7.6.1.3][9.9.2.1.1]") {
    for (uint8_t timeout = 8; timeout <= 16; ++timeout)
        for (uint8_t retries = 0; retries <= 7; ++retries) {
            PairOptions o;
            o.attr.timeout = timeout;
            o.attr.retry_cnt = retries;
            Probe p(o);
            p.e.send(WrOpcode::Send, local(10));
            const Duration t = Duration{4096} << timeout;
            CHECK(p.poll().size() == 1);
            uint32_t sent = 1;
            Instant last = p.now;
            for (;;) {
                const Packets out = until_sent(p, 5 * t);
                const Duration waited = p.now - last;
                CHECK(waited >= t);
                CHECK(waited <= 4 * t);
                last = p.now;
                if (out.empty()) break;
                REQUIRE(out.size() == 1);
                CHECK(out[0].psn() == kPsn);
                CHECK(out[0].view.bth.ack_req);
                ++sent;
            }
            CHECK(sent == 1u + retries);
            REQUIRE(p.e.sends.size() == 1);
            CHECK(p.e.sends[0].status == WcStatus::RetryExcErr);
            CHECK(p.e.qp.state() == QpState::Err);
            CHECK(p.e.count(Counter::req_transport_retries_exceeded) == 1);
            CHECK(p.e.qp.next_deadline() == kNever);
        }
}

TEST_CASE("timeout 0 never expires", "[sim][requester][case18][9.7.6.1.3]") {
    PairOptions o;
    o.attr.timeout = 0;
    Probe p(o);
    p.e.send(WrOpcode::Send, local(10));
    p.poll();
    CHECK(p.e.qp.next_deadline() == kNever);
}

TEST_CASE("rnr_retry: n allows n retries, 7 is for ever", "[sim][requester][case15][9.9.2.1.1]") {
    for (const uint8_t n : {0, 1, 3, 6, 7}) {
        PairOptions o;
        o.attr.rnr_retry = n;
        Probe p(o);
        p.e.send(WrOpcode::Send, local(10));
        p.poll();
        int naks = 0;
        while (p.e.qp.state() == QpState::Rts && naks < 20) {
            ++naks;
            CHECK(p.answer(kPsn, kRnr1).empty());
            if (p.e.qp.state() != QpState::Rts) break;
            // Nothing is on the wire during the delay, new work neither.
            p.e.send(WrOpcode::Send, local(10));
            CHECK(p.poll().empty());
            const Instant nak_at = p.now;
            const Packets out = until_sent(p, kMillisecond);
            CHECK(p.now - nak_at >= 10 * kMicrosecond);
            REQUIRE(!out.empty());
            CHECK(out[0].psn() == kPsn);
        }
        if (n == 7) {
            CHECK(p.e.qp.state() == QpState::Rts);
        } else {
            CHECK(naks == n + 1);
            CHECK(p.e.sends.at(0).status == WcStatus::RnrRetryExcErr);
            CHECK(p.e.sends.back().status == (p.e.sends.size() == 1 ? WcStatus::RnrRetryExcErr : WcStatus::WrFlushErr));
        }
    }
}

TEST_CASE("RNR waits as the table says, never shorter", "[sim][requester][9.7.5.2.8]") {
    for (uint8_t code = 0; code < 32; ++code)
        for (uint8_t setting = 0; setting < 8; ++setting) {
            PairOptions o;
            o.attr.timeout = 0;
            o.attr.rnr_retry = setting;
            Probe p(o);
            p.e.send(WrOpcode::Send, local(10));
            p.poll();
            p.answer(kPsn, static_cast<uint8_t>(0x20 | code));
            CHECK((p.e.qp.state() == QpState::Err) == (setting == 0));
            if (setting == 0) continue;
            const Instant start = p.now;
            CHECK(until_sent(p, kSecond).size() == 1);
            static constexpr uint32_t kTable[]{65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                               48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                               2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
            CHECK(p.now - start == Duration{kTable[code]} * 10'000);
        }
}

// The refused packet was sent twice, and the second copy found a receive. The ACK timer must not run while the rest waits,
// or it ends the connection.
TEST_CASE("an ACK of the refused packet ends its RNR wait", "[sim][requester][9.7.5.2.8][9.9.2.1.1]") {
    PairOptions o;
    o.attr.timeout = 8;  // about a millisecond
    o.attr.retry_cnt = 0;
    Probe p(o);
    for (int i = 0; i < 3; ++i) p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 3);
    CHECK(p.answer(kPsn, kRnrLongest).empty());
    CHECK(psns(p.answer(kPsn, kAck)) == std::vector<uint32_t>{kPsn + 1, kPsn + 2});
    // Each refusal has its own wait, also if it comes during that of a packet it acknowledges.
    CHECK(p.answer(kPsn + 1, kRnr1).empty());
    CHECK(p.answer(kPsn + 2, kRnrLongest).empty());
    const Instant refused = p.now;
    CHECK(psns(until_sent(p, kSecond)) == std::vector<uint32_t>{kPsn + 2});
    CHECK(p.now - refused == Duration{65536} * 10 * kMicrosecond);
    p.answer(kPsn + 2, kAck);
    CHECK(p.e.sends.size() == 3);
    CHECK(p.e.qp.state() == QpState::Rts);
}

TEST_CASE("several NAKs for one loss start one round", "[sim][requester][case17][9.9.2.1.1]") {
    Probe p;
    for (int i = 0; i < 8; ++i) p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 8);
    p.wait(20 * kMicrosecond);
    CHECK(p.answer(kPsn + 1, kAck).empty());  // a round trip is measured
    CHECK(psns(p.answer(kPsn + 3, kNakSequence)).size() == 5);
    p.wait(kMicrosecond);
    CHECK(p.answer(kPsn + 3, kNakSequence).empty());
    CHECK(p.answer(kPsn + 2, kAck).empty());
    CHECK(p.e.count(Counter::retransmitted_packets) == 5);
    // A round trip after the repetition the NAK is about the repetition.
    p.wait(30 * kMicrosecond);
    CHECK(p.answer(kPsn + 3, kNakSequence).size() == 5);
    CHECK(p.e.count(Counter::packet_seq_err) == 3);
}

namespace {
// Measures a round trip of 20 us, then sends `n` messages that nobody answers.
void measured_then_silent(Probe& p, int n) {
    p.e.send(WrOpcode::Send, local(10));
    p.poll();
    p.wait(20 * kMicrosecond);
    p.answer(kPsn, kAck);
    for (int i = 0; i < n; ++i) p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == static_cast<size_t>(n));
}
}  // namespace

TEST_CASE("silence is probed long before the timer, three times, without paying a retry", "[sim][requester]") {
    PairOptions o;
    o.attr.timeout = 14;
    o.attr.retry_cnt = 0;
    Probe p(o);
    measured_then_silent(p, 5);
    const Instant start = p.now;
    for (int i = 0; i < 3; ++i) {
        const Packets out = until_sent(p, kSecond);
        REQUIRE(out.size() == 1);
        CHECK(out[0].psn() == kPsn + 1);
        CHECK(out[0].view.bth.ack_req);
    }
    CHECK(p.now - start < 10 * kMillisecond);
    CHECK(p.e.count(Counter::local_ack_timeout_err) == 0);
    // The peer is dead: the timer says so, as if there had been no probe.
    CHECK(until_sent(p, kSecond).empty());
    CHECK(p.now - start >= Duration{4096} << 14);
    CHECK(p.now - start <= Duration{4096} << 16);
    CHECK(p.e.sends.at(1).status == WcStatus::RetryExcErr);
}

TEST_CASE("a lost tail: two probes, then the rest at once", "[sim][requester]") {
    Probe p;
    measured_then_silent(p, 6);
    CHECK(psns(until_sent(p, kSecond)) == std::vector<uint32_t>{kPsn + 1});
    CHECK(p.answer(kPsn + 1, kAck).empty());
    CHECK(psns(until_sent(p, kSecond)) == std::vector<uint32_t>{kPsn + 2});
    CHECK(p.answer(kPsn + 2, kAck).size() == 4);
    p.answer(kPsn + 6, kAck);
    CHECK(p.e.sends.size() == 7);
    CHECK(p.e.qp.next_deadline() == kNever);
}

// Karn: what acknowledges a repetition measures nothing. Taken for round trips, probes would push each other beyond the
// ACK timer, which then pays retries: a window of one on a bad link ended in RETRY_EXC_ERR.
TEST_CASE("probes do not lengthen the round trip that is measured", "[sim][requester]") {
    Probe p;
    measured_then_silent(p, 0);
    for (uint32_t i = 1; i <= 20; ++i) {
        p.e.send(WrOpcode::Send, local(10));
        CHECK(p.poll().size() == 1);
        const Instant sent = p.now;
        REQUIRE(until_sent(p, kSecond).size() == 1);
        CHECK(p.now - sent < 250 * kMicrosecond);
        p.wait(20 * kMicrosecond);
        p.answer(kPsn + i, kAck);
    }
    CHECK(p.e.sends.size() == 21);
    CHECK(p.e.count(Counter::local_ack_timeout_err) == 0);
}

// A window that is sent as a whole while the path is full has no first transmissions later: its first round trip stayed
// for ever, the probe of a lost resend came after the ACK timer, and each such loss cost the timer.
TEST_CASE("rounds after a NAK measure the round trip again", "[sim][requester][case11]") {
    PairOptions o;
    o.attr.timeout = 14;
    Probe p(o);
    p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == 1);
    p.wait(20 * kMillisecond);
    p.answer(kPsn, kAck);
    constexpr uint32_t kRounds = 30;
    for (uint32_t i = 0; i <= kRounds; ++i) p.e.send(WrOpcode::Send, local(10));
    CHECK(p.poll().size() == kRounds + 1);
    for (uint32_t i = 1; i <= kRounds; ++i) {
        p.wait(20 * kMicrosecond);
        CHECK(psns(p.answer(kPsn + i, kNakSequence)).front() == kPsn + i);
    }
    // The last resend is lost.
    const Instant sent = p.now;
    CHECK(psns(until_sent(p, kSecond)) == std::vector<uint32_t>{kPsn + kRounds});
    CHECK(p.now - sent < 10 * kMillisecond);
    CHECK(p.e.count(Counter::local_ack_timeout_err) == 0);
}

TEST_CASE("a lost ACK: the probe brings it back", "[sim][requester]") {
    Probe p;
    measured_then_silent(p, 6);
    CHECK(until_sent(p, kSecond).size() == 1);
    CHECK(p.answer(kPsn + 6, kAck).empty());
    CHECK(p.e.sends.size() == 7);
}

// As Linux 6.12 does with a READ of no bytes that comes again: rxe_resp.c drops it, having kept 0 as its R_Key. Each
// answer behind it is an implied NAK.
TEST_CASE("a peer that answers all but the oldest request costs few rounds a timeout, and the connection in the end",
          "[sim][requester][case18][9.9.2.1.1]") {
    PairOptions o;
    o.attr.retry_cnt = 3;
    Probe p(o);
    p.e.send(WrOpcode::RdmaRead, local(100), kMemoryBase + 0x10000);
    p.e.send(WrOpcode::AtomicFetchAndAdd, local(8), kMemoryBase + 0x10000);
    const Instant start = p.now;
    Packets out = p.poll();
    REQUIRE(out.size() == 2);
    uint32_t reads = 1;
    while (p.e.qp.state() == QpState::Rts && reads < 1000) {
        bool atomic = false;
        for (const auto& c : out) atomic = atomic || c.opcode() == RcFetchAdd;
        p.wait(10 * kMicrosecond);
        wire::ExtHeaders ext;
        ext.aeth = {kAck, 0};
        out = atomic ? p.inject(RcAtomicAcknowledge, kPsn + 1, ext) : Packets{};
        if (out.empty()) out = until_sent(p, 5 * (Duration{4096} << o.attr.timeout));
        for (const auto& c : out) reads += c.opcode() == RcReadRequest;
    }
    CHECK(p.e.sends.at(0).status == WcStatus::RetryExcErr);
    CHECK(reads <= 1 + 4 * 9u);
    CHECK(p.now - start >= 4 * (Duration{4096} << o.attr.timeout));
}

TEST_CASE("without an ACK timer every sequence NAK is followed: nothing else would send again",
          "[sim][requester][9.9.2.1.1]") {
    PairOptions o;
    o.attr.timeout = 0;
    Probe p(o);
    p.e.send(WrOpcode::Send, local(10));
    REQUIRE(p.poll().size() == 1);
    for (int i = 0; i < 40; ++i) {
        p.wait(kMillisecond);
        const Packets again = p.answer(kPsn, kNakSequence);
        REQUIRE(again.size() == 1);
        CHECK(again[0].psn() == kPsn);
    }
    CHECK(p.e.qp.state() == QpState::Rts);
}
