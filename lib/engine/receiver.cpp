// SPDX-License-Identifier: BSD-3-Clause
// See receiver.h.
#include "engine/receiver.h"

#include <algorithm>
#include <cstring>

#include "engine/delivery.h"
#include "engine/frame_view.h"
#include "engine/gsi.h"
#include "engine/neighbour_rx.h"
#include "engine/qp_record.h"
#include "net/multicast.h"
#include "transport/request_opcode.h"
#include "wire/dest_qp.h"
#include "wire/flow_key.h"
#include "wire/icrc.h"

namespace rocemu::engine {

using stats::Counter;
using wire::DropReason;

namespace {

// How far in front of the frame that is handled its successors, and what their QPs have, are asked for.
constexpr uint32_t kFramesAhead = 8, kRecordsAhead = 5, kStateAhead = 3, kQueuesAhead = 1;

void prefetch(const Frame& frame) {
    __builtin_prefetch(frame.data);
    __builtin_prefetch(frame.data + 64);
}

}  // namespace

QpRecord* Receiver::find_qp(const Device& device, const wire::PacketView& packet, DropReason& reason) const {
    QpRecord* record = qps_.find(packet.bth.dest_qp);
    if (record == nullptr || record->device != &device) {
        reason = DropReason::UnknownQp;
        return nullptr;
    }
    if (packet.op->transport != wire::Transport::Cnp &&
        !transport::transport_fits(record->setup.config.type, packet.op->transport)) {
        reason = DropReason::QpTransport;
        return nullptr;
    }
    if (record->quiesced) {
        reason = DropReason::QpState;
        return nullptr;
    }
    if (!record->connected()) {
        // A17.4.2: a datagram QP takes packets of anybody and of every RoCE version, but only those for its port.
        reason = device.refusal(packet);
        return reason == DropReason::None ? record : nullptr;
    }
    // IBTA 10.3.1: packets are accepted from RTR on; the route is set by that transition.
    if (!record->has_route) {
        reason = DropReason::QpState;
        return nullptr;
    }
    // IBTA 9.6.1.2, A17.4.2: a connected QP takes packets of its peer only, on its own addresses.
    if (packet.network != record->route.network) {
        reason = DropReason::QpNetwork;
    } else if (packet.dst_gid != record->route.src_gid) {
        reason = DropReason::NotOurGid;
    } else if (packet.src_gid != record->route.dst_gid) {
        reason = DropReason::QpSource;
    } else if (packet.vlan() != record->route.vlan()) {
        reason = DropReason::NotOurVlan;
    } else {
        return record;
    }
    return nullptr;
}

void Receiver::touch(QpRecord& record, uint32_t frame, bool read_later) {
    if (!record.touched) {
        record.touched = true;
        record.next_touched = touched_;
        touched_ = &record;
        record.burst_first = record.burst_last = kBurst;
    }
    if (!read_later) return;
    next_of_qp_[frame] = kBurst;
    (record.burst_first == kBurst ? record.burst_first : next_of_qp_[record.burst_last]) = frame;
    record.burst_last = frame;
}

// All that find_qp asks of a connected QP is the same for all frames of a flow, except for the transport; and nobody
// changes it in the middle of a burst.
bool Receiver::follows(const Frame& frame) {
    return flow_qp_ != nullptr && flow_.parse({frame.data, frame.length}, view_) &&
           transport::transport_fits(flow_qp_->setup.config.type, view_.op->transport);
}

// IBTA 9.6.1.1 and A17.3.3: nothing of a packet counts before its ICRC is right.
bool Receiver::check_icrc(Device& device, const Frame& frame) {
    if (wire::icrc_matches(view_)) return true;
    if (icrc_check_) {
        device.drop(frame, DropReason::IcrcMismatch);
        return false;
    }
    device.counters.add(Counter::rx_icrc_encapsulated);
    return true;
}

void Receiver::handle(Device& device, uint32_t i, Instant now) {
    if (!follows(frames_[i])) return handle_first(device, i, now);
    if (check_icrc(device, frames_[i])) take(device, *flow_qp_, i, now);
}

void Receiver::handle_first(Device& device, uint32_t i, Instant now) {
    Frame& frame = frames_[i];
    const std::span<const std::byte> bytes{frame.data, frame.length};
    flow_qp_ = nullptr;
    const wire::ParseResult parsed = wire::parse_frame(bytes, view_);
    if (!parsed.ok()) return handle_other(device, frame, parsed, now);
    const bool group = view_.dst_gid.is_multicast();
    if (!wire::same_mac(frame.data, group ? net::multicast_mac(view_.dst_gid) : device.mac))
        return steer(device, frame, now) ? device.seen(frame, DropReason::None)
                                         : device.drop(frame, DropReason::NotOurMac);
    if (!check_icrc(device, frame)) return;
    if (group) return handle_group(device, frame, now);
    if (view_.bth.dest_qp == kGsiQpn) return handle_mad(device, frame);
    DropReason reason = DropReason::None;
    QpRecord* record = find_qp(device, view_, reason);
    if (record == nullptr) return device.drop(frame, reason);
    if (record->connected()) {
        flow_qp_ = record;
        flow_.remember(bytes, view_);
    }
    take(device, *record, i, now);
}

void Receiver::take(Device& device, QpRecord& record, uint32_t i, Instant now) {
    Frame& frame = frames_[i];
    const bool read_later = is_read_later(view_);
    if (read_later && !placement_.admits(record)) return device.drop(frame, DropReason::QueueFull);
    device.counters.add(Counter::rx_packets);
    device.counters.add(Counter::rx_bytes, frame.length);
    device.seen(frame, DropReason::None);
    if (view_.op->transport == wire::Transport::Cnp) {
        touch(record, i, false);
        return record.qp.handle_cnp(now);
    }
    const Delivered delivered = hand_in(record, view_, frame, now);
    if (delivered == Delivered::MustWait) return scheduler_.activate(record);
    touch(record, i, read_later && delivered == Delivered::Done);
    // What follows in this burst must not meet a gap that is closed.
    if (record.kept.head != nullptr && record.qp.kept_ready()) place(record, now);
}

// A broken receive queue reads as an empty one.
Delivered Receiver::hand_in(QpRecord& record, const wire::PacketView& packet, Frame& frame, Instant now) {
    const bool may_wait = record.unacked() && parking_.room_for(record);
    const bool may_keep = record.setup.config.reorder_packets != 0 && placement_.kept().room_for(record);
    Delivered how = Delivered::MustWait;  // behind those that wait already
    if (!may_wait && record.type() == QpType::Rc && record.srq == nullptr && needs_no_receive(packet))  // as deliver would
        how = record.qp.handle_packet(packet, now, may_keep) ? Delivered::Kept : Delivered::Done;
    else if (!may_wait || record.parked.head == nullptr)
        how = deliver(record, packet, completions_, now, {may_keep, may_wait});
    if (how == Delivered::Kept) placement_.kept().keep(record, packet, frame);
    if (how == Delivered::MustWait) parking_.park(record, frame, now);
    return how;
}

void Receiver::place(QpRecord& record, Instant now) {
    std::array<Frame*, kBurst> of_qp;
    uint32_t count = 0;
    for (uint32_t f = record.burst_first; f != kBurst; f = next_of_qp_[f]) of_qp[count++] = &frames_[f];
    record.burst_first = record.burst_last = kBurst;
    placement_.run(record, {of_qp.data(), count}, now);
}

void Receiver::handle_mad(Device& device, const Frame& frame) {
    const DropReason reason = take_mad(device, view_, notifier_);
    if (reason == DropReason::QueueFull) {
        device.counters.add(Counter::mad_overflow_drops);
        return device.seen(frame, reason);
    }
    if (reason != DropReason::None) return device.drop(frame, reason);
    device.counters.add(Counter::rx_mads);
    device.counters.add(Counter::rx_packets);
    device.counters.add(Counter::rx_bytes, frame.length);
    device.seen(frame, DropReason::None);
}

// IBTA 10.5.2: every attached QP gets a copy of its own.
void Receiver::handle_group(Device& device, const Frame& frame, Instant now) {
    const auto members = device.groups.members(view_.dst_gid);
    if (members.empty() || view_.bth.dest_qp != kMulticastQpn || view_.op->transport != wire::Transport::Ud)
        return device.drop(frame, DropReason::NotOurGid);
    if (!device.in_vlan(view_.vlan())) return device.drop(frame, DropReason::NotOurVlan);
    device.counters.add(Counter::rx_packets);
    device.counters.add(Counter::rx_bytes, frame.length);
    device.seen(frame, DropReason::None);
    for (QpRecord* member : members) {
        const bool own = view_.src_mac == device.mac && view_.deth().src_qp == member->setup.config.qpn;
        if (!own || !member->setup.blocks_own_groups) deliver_copy(device, *member, frame, now);
    }
}

void Receiver::handle_other(Device& device, const Frame& frame, const wire::ParseResult& parsed, Instant now) {
    const bool foreign = parsed.kind == wire::ParseResult::Kind::NotRoce;
    const bool neighbour = foreign && handle_neighbour_frame(device, {frame.data, frame.length}, notifier_);
    if (steer(device, frame, now) || neighbour) return device.seen(frame, DropReason::None);
    // Foreign traffic of a shared interface is counted, not captured.
    if (foreign) return device.counters.add(Counter::rx_other);
    device.drop(frame, parsed.reason);
}

bool Receiver::steer(Device& device, const Frame& frame, Instant now) {
    if (device.flows.empty()) return false;
    const FlowKey key = wire::flow_key_of({frame.data, frame.length});
    const auto rules = device.flows.match(key);
    for (const FlowSetup* rule : rules) {
        QpRecord* record = qps_.find(Flows::target_of(*rule, key));
        if (record == nullptr || !record->raw() || record->device != &device || record->setup.session != rule->session)
            continue;
        device.counters.add(Counter::rx_raw_frames);
        deliver_copy(device, *record, frame, now);
    }
    return !rules.empty();
}

void Receiver::deliver_copy(Device& device, QpRecord& member, const Frame& frame, Instant now) {
    if (member.quiesced) return device.drop(frame, DropReason::QpState);
    if (!placement_.admits(member) || !device.cache.reserve(1)) return device.drop(frame, DropReason::QueueFull);
    Frame copy = device.cache.take();
    std::memcpy(copy.data, frame.data, frame.length);
    copy.length = frame.length;
    wire::PacketView view;
    (void)view_of(member, copy, view);  // as the frame it is a copy of
    if (hand_in(member, view, copy, now) == Delivered::Done) {
        std::array<Frame*, 1> frames{&copy};
        placement_.run(member, frames, now);
    }
    if (copy.data != nullptr) device.cache.give_back(copy);
    scheduler_.activate(member);
}

void Receiver::look_ahead(uint32_t i) {
    ahead_[i] = nullptr;
    const uint32_t qpn = wire::dest_qp_of({frames_[i].data, frames_[i].length});
    if (qpn == ahead_qpn_) return;
    ahead_qpn_ = qpn;
    ahead_[i] = qps_.find(qpn);
    if (ahead_[i] != nullptr) ahead_[i]->prefetch();
}

bool Receiver::run(Device& device, Instant now) {
    const auto n = static_cast<uint32_t>(device.receive(now, frames_));
    full_ = n == kBurst;
    if (n == 0) return false;
    flow_qp_ = nullptr;  // it may be gone
    for (uint32_t i = 0; i < std::min(n, kFramesAhead); ++i) prefetch(frames_[i]);
    for (uint32_t i = 0; i < std::min(n, kRecordsAhead); ++i) look_ahead(i);
    for (uint32_t i = 0; i < n; ++i) {
        if (i + kFramesAhead < n) prefetch(frames_[i + kFramesAhead]);
        if (i + kRecordsAhead < n) look_ahead(i + kRecordsAhead);
        if (i + kStateAhead < n && ahead_[i + kStateAhead] != nullptr) ahead_[i + kStateAhead]->prefetch_state();
        if (i + kQueuesAhead < n && ahead_[i + kQueuesAhead] != nullptr) ahead_[i + kQueuesAhead]->qp.prefetch_queues();
        handle(device, i, now);
    }
    while (touched_ != nullptr) {
        QpRecord& record = *touched_;
        touched_ = record.next_touched;
        record.touched = false;
        place(record, now);
        scheduler_.activate(record);
    }
    // The rest is done with: those whose placement is still out were taken.
    uint32_t rest = 0;
    for (uint32_t i = 0; i < n; ++i)
        if (frames_[i].data != nullptr) frames_[rest++] = frames_[i];
    device.cache.free({frames_.data(), rest});
    return true;
}

}  // namespace rocemu::engine
