// SPDX-License-Identifier: BSD-3-Clause
// See wire_rules.h. Where the watcher cannot know the core's mind (a packet dropped for want of room, a response that
// came when nothing waited for it) it allows both.
#include "tests/model/wire_rules.h"

#include <algorithm>

#include "base/psn.h"
#include "transport/rnr_timer.h"

namespace rocemu::model {

using wire::AethKind;
using wire::NakCode;
using wire::Operation;
using wire::Position;

namespace {

uint64_t offset_of(const Oracle& o, uint32_t psn) {
    return (psn - o.psn_start()) & Psn::kMask;
}

void mark(std::vector<bool>& set, uint64_t i) {
    if (set.size() <= i) set.resize(i + 1);
    set[i] = true;
}
bool has(const std::vector<bool>& set, uint64_t i) {
    return i < set.size() && set[i];
}

}  // namespace

void WireRules::fail(const std::string& what, const wire::PacketView& p) {
    if (!error_.empty()) return;
    error_ =
        std::string(who_ == 0 ? "A" : "B") + " sent " + p.op->name + " psn " + std::to_string(p.bth.psn) + ": " + what;
}

// The core's una is at least this.
uint64_t WireRules::lower_una() const {
    const uint64_t completed = mine_.sends_completed();
    uint64_t una = completed == 0 ? 0 : mine_.messages()[completed - 1].end;
    while (una < told_) {
        const Message* m = mine_.at(una);
        if (m == nullptr || m->wants_data()) break;
        una = std::min(told_, m->end);
    }
    return una;
}

void WireRules::advance_upper() {
    while (const Message* m = mine_.at(upper_una_)) {
        if (m->wants_data() ? !has(data_, upper_una_) : upper_una_ >= acked_) return;
        ++upper_una_;
    }
}

void WireRules::heard_response(const wire::PacketView& p, Instant now) {
    const uint64_t offset = offset_of(mine_, p.bth.psn);
    if (offset >= next_) return;
    if (p.op->operation != Operation::Acknowledge) {
        mark(data_, offset);
        acked_ = std::max(acked_, offset);
        if (schedule_.settings.dma_window == 256) told_ = acked_;
        return advance_upper();
    }
    const wire::Aeth aeth = p.aeth();
    const bool rnr = aeth.kind() == AethKind::RnrNak;
    // Without faults on the wire each RNR NAK is the answer to the oldest packet and must be obeyed.
    if (rnr && schedule_.faults.empty() && schedule_.settings.slow == 0 && offset >= upper_una_) {
        rnr_until_ = now + transport::rnr_delay(aeth.rnr_timer_code());
        refused_ = offset;
    }
    acked_ = std::max(acked_, aeth.kind() == AethKind::Ack ? offset + 1 : offset);
    told_ = std::max(told_, aeth.kind() == AethKind::Ack ? offset + 1 : offset);
    advance_upper();
    if (upper_una_ > refused_) rnr_until_ = Instant{0};  // another copy was taken
}

void WireRules::delivered(const wire::PacketView& p, Instant now) {
    if (p.op->is_response()) return heard_response(p, now);
    const uint64_t offset = offset_of(theirs_, p.bth.psn);
    const Message* m = theirs_.at(offset);
    if (m == nullptr) return;
    // A READ request moves the expected PSN over all its responses.
    const uint64_t end = m->is_read() ? m->end : offset + 1;
    for (uint64_t o = offset; o != end; ++o) mark(requests_, o);
    while (has(requests_, expected_)) ++expected_;
}

void WireRules::sent(const wire::PacketView& p, Instant now) {
    if (!p.op->is_response()) return sent_request(p, now);
    const uint64_t offset = offset_of(theirs_, p.bth.psn);
    // An ACK right behind the start: "everything before the first packet".
    if (offset == Psn::kMask) return;
    if (p.op->operation == Operation::Acknowledge)
        sent_acknowledge(p, offset);
    else
        sent_response(p, offset);
}

void WireRules::sent_request(const wire::PacketView& p, Instant now) {
    const uint64_t offset = offset_of(mine_, p.bth.psn);
    const Message* m = mine_.at(offset);
    if (m == nullptr || offset > next_) return fail("a PSN that no message has yet", p);
    if (offset < lower_una()) return fail("a packet that was acknowledged", p);
    if (now < rnr_until_) return fail("during the RNR wait", p);
    check_request_bytes(p, *m, offset);
    if (offset < next_) return;
    // IBTA 9.7.3.1: the window, and the limit of READs and atomics.
    next_ = m->is_read() ? m->end : offset + 1;
    uint32_t packets = 0, data = 0;
    for (uint64_t o = upper_una_; o < next_; ++packets) {
        const Message& x = *mine_.at(o);
        data += x.wants_data();
        o = x.wants_data() ? x.end : o + 1;
    }
    if (packets > schedule_.settings.window_packets) fail("outside the window of packets", p);
    if (data > schedule_.settings.rd_atomic) fail("more READs and atomics than max_rd_atomic", p);
    // IBTA 10.8.3.3: a fence waits for READs and atomics.
    if (offset == m->first && (m->post.flags & send_flags::kFence))
        for (uint64_t o = upper_una_; o < m->first; o = mine_.at(o)->end)
            if (mine_.at(o)->wants_data()) return fail("through a fence", p);
}

// A request packet is the same however often it is sent.
void WireRules::check_request_bytes(const wire::PacketView& p, const Message& m, uint64_t offset) {
    const uint64_t index = offset - m.first;
    const uint64_t from = index * mine_.mtu();
    const bool first = offset == m.first, last = offset + 1 == m.end;
    if (m.is_atomic()) {
        const wire::AtomicEth eth = p.atomic_eth();
        const bool swap = m.op == WrOpcode::AtomicCmpAndSwp;
        if (p.op->operation != (swap ? Operation::CompareSwap : Operation::FetchAdd)) return fail("operation", p);
        if (eth.va != m.remote || eth.rkey != m.rkey || eth.swap_or_add != (swap ? m.swap : m.compare_add) ||
            (swap && eth.compare != m.compare_add))
            fail("AtomicETH", p);
        return;
    }
    if (m.is_read()) {
        if (p.op->operation != Operation::ReadRequest) return fail("operation", p);
        const wire::Reth reth = p.reth();
        if (reth.va != m.remote + from || reth.rkey != m.rkey || reth.length != m.bytes - from)
            fail("RETH of the READ", p);
        return;
    }
    if (p.op->operation != (m.is_send() ? Operation::Send : Operation::Write)) return fail("operation", p);
    const Position place =
        first ? (last ? Position::Only : Position::First) : (last ? Position::Last : Position::Middle);
    if (p.op->position != place) return fail("place in the message", p);
    if (p.op->has_immediate() != (last && m.has_imm())) return fail("immediate or none", p);
    if (p.op->has_immediate() && __builtin_bswap32(p.immdt().data) != m.imm) fail("immediate", p);
    if (m.is_write() && first) {
        const wire::Reth reth = p.reth();
        if (reth.va != m.remote || reth.rkey != m.rkey || reth.length != m.bytes) fail("RETH", p);
    }
    const bool solicited = last && (m.post.flags & send_flags::kSolicited) && m.op != WrOpcode::RdmaWrite;
    if (p.bth.solicited != solicited) fail("solicited event bit", p);
    const uint64_t n = std::min<uint64_t>(mine_.mtu(), m.bytes - from);
    if (p.payload.size() != n ||
        !std::equal(p.payload.begin(), p.payload.end(), m.data.begin() + static_cast<long>(from)))
        fail("payload", p);
}

void WireRules::sent_acknowledge(const wire::PacketView& p, uint64_t offset) {
    const wire::Aeth aeth = p.aeth();
    const uint32_t before = offset == 0 ? 0 : theirs_.msn_at(offset - 1);
    if (aeth.kind() == AethKind::Ack) {
        if (offset >= expected_) return fail("acknowledges what has not arrived", p);
        if (aeth.msn != theirs_.msn_at(offset))
            fail("MSN " + std::to_string(aeth.msn) + " instead of " + std::to_string(theirs_.msn_at(offset)), p);
        check_credits(p);
        acknowledged_ = std::max(acknowledged_, offset + 1);
        for (; verified_ <= offset; ++verified_)
            if (!theirs_.placed(verified_)) return fail("acknowledged before it was placed", p);
        return;
    }
    if (offset > expected_) return fail("a NAK ahead of the expected PSN", p);
    const bool again = aeth.kind() == AethKind::RnrNak || aeth.nak_code() == NakCode::PsnSequenceError;
    if (again && offset < acknowledged_) return fail("a NAK for a duplicate", p);
    if (again && aeth.msn != before) fail("MSN of the NAK", p);
    if (!again && (aeth.msn < before || (expected_ > 0 && aeth.msn > theirs_.msn_at(expected_ - 1))))
        fail("MSN of the NAK", p);
    if (aeth.kind() != AethKind::RnrNak) return;
    const Message* m = theirs_.at(offset);
    if (m == nullptr || !m->takes_receive()) return fail("RNR for what takes no receive", p);
    if (aeth.rnr_timer_code() != schedule_.settings.rnr_timer) fail("RNR timer", p);
}

// IBTA 9.7.7.2: no more is promised than there are receives for, if every message to come takes one.
void WireRules::check_credits(const wire::PacketView& p) {
    const wire::Aeth aeth = p.aeth();
    if (aeth.credit_code() == wire::kNoCredits) return;
    const uint32_t executed = expected_ == 0 ? 0 : theirs_.msn_at(expected_ - 1);
    uint64_t taken = 0;
    for (uint32_t i = 0; i < executed; ++i) taken += theirs_.messages()[i].takes_receive();
    const uint64_t most = executed + theirs_.receives_posted() - taken;
    if (aeth.msn + wire::credits_of_code(aeth.credit_code()) > most) fail("more credits than receives", p);
}

void WireRules::sent_response(const wire::PacketView& p, uint64_t offset) {
    const Message* m = theirs_.at(offset);
    if (m == nullptr || offset >= expected_) return fail("a response to nothing", p);
    acknowledged_ = std::max(acknowledged_, offset + 1);
    // A response acknowledges what lies before it.
    for (; verified_ <= offset; ++verified_)
        if (!theirs_.placed(verified_)) return fail("a response before the placement of what came first", p);
    if (p.op->has(wire::ext::kAeth)) {
        if (p.aeth().kind() != AethKind::Ack) fail("syndrome of a response", p);
        if (p.aeth().msn != theirs_.msn_at(offset)) fail("MSN of a response", p);
        check_credits(p);
    }
    if (m->is_atomic()) {
        if (p.op->operation != Operation::AtomicAcknowledge) return fail("operation of the response", p);
        if (p.atomic_ack_eth().original != m->before) fail("original value of the atomic", p);
        return;
    }
    if (!m->is_read() || p.op->operation != Operation::ReadResponse) return fail("operation of the response", p);
    const uint64_t from = (offset - m->first) * theirs_.mtu();
    const uint64_t n = std::min<uint64_t>(theirs_.mtu(), m->bytes - from);
    if (p.op->ends_message() != (offset + 1 == m->end)) fail("place in the READ response", p);
    if (p.payload.size() != n ||
        !std::equal(p.payload.begin(), p.payload.end(), m->data.begin() + static_cast<long>(from)))
        fail("payload of the READ response", p);
}

}  // namespace rocemu::model
