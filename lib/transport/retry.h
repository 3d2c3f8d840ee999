// SPDX-License-Identifier: BSD-3-Clause
// Retry: when the requester must go back and when it must give up. Holds the ACK timer, the RNR wait, both retry
// counters, the probes and the rule that one loss starts one retry round. Times only; moving the cursor is the
// caller's. Read IBTA volume 1, 9.7.6.1.3 (local ACK timeout), 9.7.5.2.8 (RNR), 9.9.2.1 (retry counters), 11.2.5.2.
#pragma once

#include <algorithm>

#include "base/time.h"
#include "transport/prober.h"
#include "transport/qp_attr.h"
#include "transport/rtt.h"

namespace rocemu::transport {

enum class RetryVerdict : uint8_t {
    Ignore,     // part of a round that is already running
    GoBack,     // resend from the oldest unacknowledged packet
    Exhausted,  // the counter was used up
};

struct SentPacket {
    uint64_t psn;   // extended
    uint64_t high;  // the next PSN never sent
    bool again;     // not its first transmission
    bool oldest;    // the oldest unacknowledged packet
};

class Retry {
  public:
    explicit Retry(const QpAttr& attr) : attr_(attr) {}

    void reset();

    // --- told by the requester and completer ---
    void packet_sent(Instant now, const SentPacket& packet);
    // `una` moved; `outstanding`: something is still unacknowledged.
    void progress(Instant now, uint64_t una, bool outstanding);

    // --- causes ---
    RetryVerdict on_timeout(Instant now);
    RetryVerdict on_sequence_nak(Instant now);
    // A response ahead of the expected one; `psn`: where it was; `data`: it is part of a READ or atomic response.
    RetryVerdict on_implied_nak(Instant now, uint64_t psn, bool data);
    RetryVerdict on_rnr_nak(Instant now, uint8_t timer_code);

    [[nodiscard]] bool rnr_waiting(Instant now) const { return now < rnr_until_; }
    [[nodiscard]] bool timed_out(Instant now) const { return now >= ack_deadline_; }
    [[nodiscard]] Instant deadline() const { return std::min(ack_deadline_, rnr_waits_ ? rnr_until_ : kNever); }
    // The RNR wait is over and was noticed.
    void rnr_done() { rnr_waits_ = false; }
    // Nothing of the QP will be sent any more.
    void stop();

    // When the oldest packet is to be probed; kNever during an RNR wait.
    [[nodiscard]] Instant probe_due(bool data) const { return rnr_waits_ ? kNever : prober_.due(rtt_, data); }
    [[nodiscard]] Prober& prober() { return prober_; }

  private:
    void end_rnr_wait() {
        rnr_until_ = Instant{0};
        rnr_waits_ = false;
    }
    [[nodiscard]] Instant timer_from(Instant now) const;
    [[nodiscard]] bool same_round(Instant now) const;
    [[nodiscard]] Duration timeout() const;
    [[nodiscard]] bool within_paid(Instant now) const;
    RetryVerdict spend(Instant now);
    RetryVerdict begin_round(Instant now, uint64_t gap);

    const QpAttr& attr_;
    uint8_t retries_left_ = 0;
    uint8_t rnr_left_ = 0;
    Instant ack_deadline_ = kNever;
    Instant rnr_until_{0};
    bool rnr_waits_ = false;
    // The running round: from going back until una moves.
    bool round_ = false;
    bool missed_ = false;         // the peer said that it does not have the oldest packet
    Instant resent_at_ = kNever;  // when the oldest packet was sent again
    uint64_t resent_high_ = 0;    // first PSN sent for the first time after that
    Instant spent_at_ = kNever;   // when a retry was last paid for since una moved
    uint8_t free_rounds_ = 0;     // that may still start without being paid for
    uint64_t gap_ = 0;            // newest response seen ahead of the expected one
    RttEstimator rtt_;
    Prober prober_;
};

}  // namespace rocemu::transport
