// SPDX-License-Identifier: BSD-3-Clause
// See retry.h.
#include "transport/retry.h"

#include <algorithm>
#include <limits>

#include "transport/rnr_timer.h"

namespace rocemu::transport {

namespace {
constexpr uint8_t kRnrForEver = 7;
constexpr uint64_t kAnyGap = std::numeric_limits<uint64_t>::max();
}  // namespace

void Retry::reset() {
    retries_left_ = attr_.retry_cnt;
    rnr_left_ = attr_.rnr_retry;
    min_rtt_ = 0;
    stop();
}

void Retry::stop() {
    ack_deadline_ = kNever;
    rnr_until_ = Instant{0};
    rnr_waits_ = false;
    round_ = sampling_ = false;
}

// IBTA 9.7.6.1.3: T = 4.096 us * 2^n; the timer must fire not before T and not after 4 T. One and a half times T leaves
// room for a caller that looks at its timers late.
Instant Retry::timer_from(Instant now) const {
    if (attr_.timeout == 0) return kNever;
    const Duration t = Duration{4096} << attr_.timeout;
    return now + t + t / 2;
}

void Retry::packet_sent(Instant now, uint64_t psn, bool ack_req, bool again, bool oldest) {
    if (ack_deadline_ == kNever) ack_deadline_ = timer_from(now);
    if (round_ && oldest && resent_at_ == kNever) resent_at_ = now;
    if (ack_req && !again && !sampling_ && !round_) {
        sampling_ = true;
        sample_psn_ = psn;
        sample_at_ = now;
    }
}

void Retry::progress(Instant now, uint64_t una, bool outstanding) {
    if (sampling_ && una > sample_psn_) {
        const Duration rtt = std::max<Duration>(now - sample_at_, 1);
        min_rtt_ = min_rtt_ == 0 ? rtt : std::min(min_rtt_, rtt);
        sampling_ = false;
    }
    round_ = false;
    retries_left_ = attr_.retry_cnt;
    rnr_left_ = attr_.rnr_retry;
    ack_deadline_ = outstanding ? timer_from(now) : kNever;
}

// Several NAKs or responses tell of one loss. A second cause counts only after the oldest packet has been sent again and
// an answer to it could have come back.
bool Retry::same_round(Instant now) const {
    return round_ && (resent_at_ == kNever || now < resent_at_ + min_rtt_ / 2);
}

void Retry::begin_round(uint64_t gap) {
    round_ = true;
    resent_at_ = kNever;
    gap_ = gap;
    sampling_ = false;        // Karn: an answer to a packet sent twice measures nothing
    ack_deadline_ = kNever;   // starts again with the first packet sent again
}

// IBTA 9.9.2.1.1: timeouts, sequence NAKs and implied NAKs share one counter, refilled by progress.
RetryVerdict Retry::spend() {
    if (retries_left_ == 0) return RetryVerdict::Exhausted;
    --retries_left_;
    return RetryVerdict::GoBack;
}

RetryVerdict Retry::on_timeout() {
    ack_deadline_ = kNever;
    const RetryVerdict v = spend();
    begin_round(kAnyGap);
    return v;
}

RetryVerdict Retry::on_sequence_nak(Instant now) {
    if (same_round(now)) return RetryVerdict::Ignore;
    const RetryVerdict v = spend();
    begin_round(kAnyGap);
    return v;
}

RetryVerdict Retry::on_implied_nak(Instant now, uint64_t psn) {
    // The responses of the old run may still be coming in; only when they start over is the new run known to have lost
    // its beginning too.
    const bool old_run = round_ && psn > gap_;
    if (old_run || same_round(now)) {
        gap_ = psn;
        return RetryVerdict::Ignore;
    }
    const RetryVerdict v = spend();
    begin_round(psn);
    return v;
}

RetryVerdict Retry::on_rnr_nak(Instant now, uint8_t timer_code) {
    if (rnr_waits_ || same_round(now)) return RetryVerdict::Ignore;
    // rnr_retry n: the NAK number n + 1 for one packet is an error; 7 never is.
    if (attr_.rnr_retry != kRnrForEver && rnr_left_-- == 0) return RetryVerdict::Exhausted;
    retries_left_ = attr_.retry_cnt;  // the peer is alive
    begin_round(kAnyGap);
    rnr_until_ = now + rnr_delay(timer_code);
    rnr_waits_ = true;
    return RetryVerdict::GoBack;
}

}  // namespace rocemu::transport
