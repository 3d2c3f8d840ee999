// SPDX-License-Identifier: BSD-3-Clause
// Credits: end-to-end flow control as the requester sees it. Messages are numbered as they are begun (SSN); the AETH of
// an ACK tells the responder's message number (MSN) and how many receives it has beyond it. A SEND or WRITE with
// immediate behind that limit waits, unless nothing is outstanding: then one goes, and its ACK brings the next credits.
// Read IBTA volume 1, 9.7.7.2 (end-to-end flow control), 9.3.5 (AETH).
//
// Before the first ACK nothing is known of the peer; messages go as to a peer without flow control, and the worst that
// can happen is an RNR NAK.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "wire/aeth.h"

namespace rocemu::transport {

class Credits {
  public:
    void reset() { *this = Credits{}; }

    // A message was begun. IBTA 9.7.7.2: one that takes no receive uses no credit, but has a number like all.
    void started(bool takes_receive) {
        ++ssn_;
        if (!takes_receive) ++limit_;
    }
    // The next message may be begun although it takes a receive.
    [[nodiscard]] bool allow(bool outstanding) const { return !limited_ || ssn_ < limit_ || !outstanding; }

    void on_ack(const wire::Aeth& aeth) {
        limited_ = aeth.credit_code() != wire::kNoCredits;
        if (!limited_) return;
        // The peer cannot have executed what was not begun; a number from the future is nonsense.
        const uint32_t behind = (static_cast<uint32_t>(ssn_) - aeth.msn) & Psn::kMask;
        if (behind > ssn_ || behind >= (1u << 23)) return;
        limit_ = std::max(limit_, ssn_ - behind + wire::credits_of_code(aeth.credit_code()));
    }

  private:
    uint64_t ssn_ = 0;    // messages begun
    uint64_t limit_ = 0;  // messages that may be begun
    bool limited_ = false;
};

}  // namespace rocemu::transport
