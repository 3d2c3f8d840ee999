// SPDX-License-Identifier: BSD-3-Clause
// See retry.h.
#include "transport/retry.h"

#include <algorithm>
#include <limits>

#include "transport/rnr_timer.h"

namespace rocemu::transport {

namespace {
constexpr uint8_t kRnrForEver = 7;
// Rounds that one paid retry may be followed by before the ACK timer has its say.
constexpr uint8_t kFreeRounds = 8;
constexpr uint64_t kAnyGap = std::numeric_limits<uint64_t>::max();
}  // namespace

void Retry::reset() {
    retries_left_ = attr_.retry_cnt;
    rnr_left_ = attr_.rnr_retry;
    rtt_.reset();
    prober_.reset();
    stop();
}

void Retry::stop() {
    ack_deadline_ = kNever;
    end_rnr_wait();
    round_ = false;
    rtt_.cancel();
    spent_at_ = kNever;
}

// IBTA 9.7.6.1.3: T = 4.096 us * 2^n; the timer must fire not before T and not after 4 T. One and a half times T leaves
// room for a caller that looks at its timers late.
Duration Retry::timeout() const {
    const Duration t = Duration{4096} << attr_.timeout;
    return t + t / 2;
}

Instant Retry::timer_from(Instant now) const {
    return attr_.timeout == 0 ? kNever : now + timeout();
}

void Retry::packet_sent(Instant now, const SentPacket& p) {
    if (ack_deadline_ == kNever) ack_deadline_ = timer_from(now);
    if (round_ && p.oldest && resent_at_ == kNever) {
        resent_at_ = now;
        resent_high_ = p.high;
    } else if (p.oldest) {
        missed_ = false;  // a probe: the answer may be one to either
    }
    // Any packet will do: one that asks for an ACK follows in the same burst, and under loss it is often a NAK that
    // answers.
    if (p.again)
        rtt_.sent_again(p.psn);
    else
        rtt_.sent(p.psn, now);
    prober_.sent(now);
}

void Retry::progress(Instant now, uint64_t una, bool outstanding) {
    rtt_.acked(una, now);
    // A window that was sent once as a whole has no first transmissions any more: without this the round trip of its
    // first packets, measured while all of it was under way, would stay for ever, and the probes come late.
    if (round_ && missed_ && resent_at_ != kNever) rtt_.answered(now - resent_at_);
    prober_.progress(now, una);
    round_ = false;
    spent_at_ = kNever;
    retries_left_ = attr_.retry_cnt;
    rnr_left_ = attr_.rnr_retry;
    // IBTA 9.7.5.2.8: the wait was for the packet that was refused. Another copy of it (a probe) has been taken since: what
    // is behind it need not wait, or the ACK timer would run, and pay, while nothing may be sent.
    end_rnr_wait();
    ack_deadline_ = outstanding ? timer_from(now) : kNever;
}

// Several NAKs or responses tell of one loss. A second cause counts only after the oldest packet has been sent again
// and an answer to it could have come back.
bool Retry::same_round(Instant now) const {
    return round_ && (resent_at_ == kNever || now < resent_at_ + rtt_.min() / 2);
}

RetryVerdict Retry::begin_round(Instant now, uint64_t gap) {
    if (!within_paid(now))
        free_rounds_ = kFreeRounds;
    else if (free_rounds_ == 0 && attr_.timeout != 0)  // without a timer nothing would start a round again
        return RetryVerdict::Ignore;
    else if (free_rounds_ != 0)
        --free_rounds_;
    round_ = true;
    missed_ = false;
    resent_at_ = kNever;
    gap_ = gap;
    rtt_.cancel();
    ack_deadline_ = kNever;  // starts again with the first packet sent again
    return spend(now);
}

// IBTA 9.9.2.1.1: timeouts, sequence NAKs and implied NAKs share one counter, refilled by progress.
// DEVIATION: of the rounds that start within one timeout without progress only the first is paid for. A peer that NAKs
// is alive; under heavy loss several rounds in one round-trip time must not end the connection. Nor may a peer that
// answers everything but the oldest packet keep the two of us busy at wire speed: then the ACK timer decides, and pays.
bool Retry::within_paid(Instant now) const {
    const Duration period = attr_.timeout == 0 ? kSecond : timeout();
    return spent_at_ != kNever && now < spent_at_ + period;
}

RetryVerdict Retry::spend(Instant now) {
    if (within_paid(now)) return RetryVerdict::GoBack;
    spent_at_ = now;
    if (retries_left_ == 0) return RetryVerdict::Exhausted;
    --retries_left_;
    return RetryVerdict::GoBack;
}

RetryVerdict Retry::on_timeout(Instant now) {
    spent_at_ = kNever;  // an expiry always counts
    return begin_round(now, kAnyGap);
}

RetryVerdict Retry::on_sequence_nak(Instant now) {
    if (same_round(now)) return RetryVerdict::Ignore;
    const RetryVerdict verdict = begin_round(now, kAnyGap);
    missed_ = verdict == RetryVerdict::GoBack;
    return verdict;
}

RetryVerdict Retry::on_implied_nak(Instant now, uint64_t psn, bool data) {
    if (round_) {
        // Lost again for sure: this answers a packet that was first sent after the repetition.
        const bool overtaken = resent_at_ != kNever && psn >= resent_high_;
        // Or the data starts over behind its beginning. While numbers rise they may belong to the old run.
        const bool restarted = data && psn <= gap_ && !same_round(now);
        if (data) gap_ = psn;
        if (!overtaken && !restarted) return RetryVerdict::Ignore;
    }
    return begin_round(now, psn);
}

RetryVerdict Retry::on_rnr_nak(Instant now, uint8_t timer_code) {
    // However soon it comes, it says that the peer has dropped what was sent: ignored, it would cost the ACK timer.
    // Round trips measured while placements were slow say nothing about how fast a NAK can be.
    if (rnr_waits_) return RetryVerdict::Ignore;
    // rnr_retry n: the NAK number n + 1 for one packet is an error; 7 never is.
    if (attr_.rnr_retry != kRnrForEver && rnr_left_-- == 0) return RetryVerdict::Exhausted;
    spent_at_ = kNever;  // bounded by its own counter and wait
    (void)begin_round(now, kAnyGap);
    retries_left_ = attr_.retry_cnt;  // the peer is alive: this round costs nothing of the other counter
    rnr_until_ = now + rnr_delay(timer_code);
    rnr_waits_ = true;
    return RetryVerdict::GoBack;
}

}  // namespace rocemu::transport
