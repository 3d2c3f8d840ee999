// SPDX-License-Identifier: BSD-3-Clause
// See delivery.h.
#include "engine/delivery.h"

#include "engine/frame_view.h"
#include "engine/qp_record.h"
#include "engine/rq_reader.h"
#include "engine/srq.h"

namespace rocemu::engine {

namespace {

class ReceiveOffer {
  public:
    ReceiveOffer(QpRecord& record, const wire::PacketView& packet, Completions& completions)
        : record_(record), completions_(completions), srq_(record.srq) {
        const wire::OpcodeInfo& op = *packet.op;
        // IBTA A14: an XRC target has no queue of its own, the packet names one.
        if (op.has(wire::ext::kXrcEth) && record.is_xrc_target()) {
            srq_ = record.session->find_xrc_srq(packet.xrceth().srqn);
            record.qp.name_srq(srq_ == nullptr ? 0 : srq_->setup.pd);
        }
        if (srq_ != nullptr)
            lent_ = op.takes_receive() && lend_receive(record, *srq_, completions);
        else if (!needs_no_receive(packet))
            top_up_if_low(record);  // IBTA 9.7.7.2: the answer tells the peer how many there are
    }
    ~ReceiveOffer() {
        if (lent_) settle_receive(record_, *srq_, completions_);
    }
    ReceiveOffer(const ReceiveOffer&) = delete;
    ReceiveOffer& operator=(const ReceiveOffer&) = delete;

  private:
    QpRecord& record_;
    Completions& completions_;
    SrqRecord* srq_;
    bool lent_ = false;
};

}  // namespace

Delivered deliver(QpRecord& record, const wire::PacketView& packet, Completions& completions, Instant now,
                  DeliveryRules rules) {
    const ReceiveOffer offer(record, packet, completions);
    if (rules.may_wait && record.qp.must_wait(packet)) return Delivered::MustWait;
    return record.qp.handle_packet(packet, now, rules.may_keep) ? Delivered::Kept : Delivered::Done;
}

Delivered deliver_again(QpRecord& record, const Frame& frame, wire::PacketView& view, Completions& completions,
                        Instant now, DeliveryRules rules) {
    if (view_of(record, frame, view))
        return deliver(record, view, completions, now, rules);
    view.payload = {};
    return Delivered::Done;
}

}  // namespace rocemu::engine
