// SPDX-License-Identifier: BSD-3-Clause
// Completer: takes ACKs, NAKs, READ responses and atomic results and moves the acknowledged border of the send queue.
// Read IBTA volume 1, 9.7.5 (acknowledgements, implied ACK and NAK), 9.7.6 (responses at the requester),
// 9.9.2 (requester errors).
#pragma once

#include "transport/kept_packets.h"
#include "transport/qp_context.h"
#include "transport/retry.h"
#include "transport/send_queue.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

class Completer {
  public:
    Completer(QpContext& ctx, SendQueue& queue, Retry& retry) : ctx_(ctx), q_(queue), retry_(retry) {}

    void reset();
    // A response packet. Precondition: the QP's state listens to responses. True: it came too early and is kept.
    bool handle(const wire::PacketView& packet, Instant now, bool may_keep);
    // What came early has waited long enough: what lies before it is lost.
    void handle_timeout(Instant now);
    [[nodiscard]] Instant next_deadline() const { return ctx_.can_request() ? nak_due_ : kNever; }
    // A kept packet may come back: it is the next one, behind, or of no use any more.
    [[nodiscard]] bool kept_ready() const {
        return kept_.any() && (!ctx_.can_request() || (kept_.lowest() <= q_.una && ctx_.dma.has_room()));
    }
    uint64_t take_kept() { return kept_.take_lowest(); }
    // A placement of response data has ended.
    void placed(const DmaOp& op, DmaStatus status);

  private:
    [[nodiscard]] bool reach(uint64_t target, Instant now);
    void gap(uint64_t psn, bool data, bool patient, Instant now);
    void progress(Instant now);
    void on_acknowledge(uint64_t psn, wire::Aeth aeth, Instant now);
    void on_nak(wire::NakCode code, Instant now);
    void on_read_response(uint64_t psn, const wire::PacketView& packet, Instant now);
    void on_atomic_result(const wire::PacketView& packet, Instant now);
    bool place(SendEntry& e, uint64_t offset, const void* source, uint32_t length);
    void implied_nak(uint64_t psn, bool data, Instant now);
    void act(RetryVerdict verdict, Counter exhausted, WcStatus status);
    void fail(WcStatus status);

    QpContext& ctx_;
    SendQueue& q_;
    Retry& retry_;
    KeptPackets kept_;
    // A response came ahead of data that is missing (the newest such PSN; 0: none): lost, if it does not come in time.
    Instant nak_due_ = kNever;
    uint64_t gap_psn_ = 0;
    bool gap_data_ = false;
};

}  // namespace rocemu::transport
