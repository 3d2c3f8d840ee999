// SPDX-License-Identifier: BSD-3-Clause
// Receiver: a burst of received frames from the port to the core: parse, ICRC, destination QP, addresses, then the
// placements of each QP that got packets. Every frame that goes no further has a drop reason, which is counted and seen
// by the capture tap. Read IBTA volume 1, 9.6 (packet validation), annex A17.4.
#pragma once

#include <array>
#include <cstdint>

#include "engine/delivery.h"
#include "engine/device.h"
#include "engine/parking.h"
#include "engine/placement.h"
#include "engine/qpn_table.h"
#include "engine/scheduler.h"
#include "wire/flow_parser.h"
#include "wire/parse.h"

namespace rocemu::engine {

class Receiver {
  public:
    static constexpr uint32_t kBurst = Placement::kBurst;

    Receiver(const QpnTable& qps, Placement& placement, Parking& parking, Scheduler& scheduler,
             Completions& completions, Notifier& notifier, bool icrc_check)
        : qps_(qps),
          placement_(placement),
          parking_(parking),
          scheduler_(scheduler),
          completions_(completions),
          notifier_(notifier),
          icrc_check_(icrc_check) {}

    // One burst of the device. True if there were frames.
    bool run(Device& device, Instant now);
    [[nodiscard]] bool full() const { return full_; }  // the last burst was a whole one: there may be more

  private:
    void handle(Device& device, uint32_t i, Instant now);
    // One that is not of the flow of the frame before it, or is not in order.
    void handle_first(Device& device, uint32_t i, Instant now);
    // The frame is of the connected QP that the frame before it was for; view_ is what it says.
    [[nodiscard]] bool follows(const Frame& frame);
    // False: it is wrong, and the frame was dropped.
    bool check_icrc(Device& device, const Frame& frame);
    // The packet of view_ is for this QP.
    void take(Device& device, QpRecord& record, uint32_t i, Instant now);
    void handle_mad(Device& device, const Frame& frame);
    void handle_group(Device& device, const Frame& frame, Instant now);
    // A frame that is no RoCE packet: a neighbour's, for flow rules, or nobody's.
    void handle_other(Device& device, const Frame& frame, const wire::ParseResult& parsed, Instant now);
    // For those whose flow rules fit. False: for nobody.
    bool steer(Device& device, const Frame& frame, Instant now);
    // `member` gets a copy of the frame.
    void deliver_copy(Device& device, QpRecord& member, const Frame& frame, Instant now);
    // Who it is for, or nullptr and the reason.
    QpRecord* find_qp(const Device& device, const wire::PacketView& packet, wire::DropReason& reason) const;
    // Into the core, or to where it waits: then the frame is taken (data = nullptr).
    Delivered hand_in(QpRecord& record, const wire::PacketView& packet, Frame& frame, Instant now);
    // Places what came for the QP so far, and what waited for it.
    void place(QpRecord& record, Instant now);
    void touch(QpRecord& record, uint32_t frame, bool read_later);
    // Brings the QP of frame `i` near, where the frames of a burst are of many.
    void look_ahead(uint32_t i);

    const QpnTable& qps_;
    Placement& placement_;
    Parking& parking_;
    Scheduler& scheduler_;
    Completions& completions_;
    Notifier& notifier_;
    bool icrc_check_;
    QpRecord* touched_ = nullptr;
    bool full_ = false;
    std::array<Frame, kBurst> frames_;
    std::array<uint32_t, kBurst> next_of_qp_{};    // chain of the frames of one QP that are read later
    std::array<const QpRecord*, kBurst> ahead_{};  // of a frame; nullptr: as of the one before
    uint32_t ahead_qpn_ = 0;
    wire::PacketView view_;
    // Of the frames that were handled last in this burst.
    wire::FlowParser flow_;
    QpRecord* flow_qp_ = nullptr;
};

}  // namespace rocemu::engine
