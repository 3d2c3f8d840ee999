// SPDX-License-Identifier: BSD-3-Clause
// See requester.h. From top to bottom: the turn, what may be sent, packets, errors found here.
#include "transport/requester.h"

#include <array>

#include "transport/local_operation.h"
#include "transport/request_opcode.h"
#include "transport/sge_cursor.h"

namespace rocemu::transport {

namespace {
// IBTA 9.7.1: at most 2^23 PSNs may be outstanding, or duplicates could not be told from new packets.
constexpr uint64_t kMaxOutstandingPsns = uint64_t{1} << 23;
}  // namespace

void Requester::start() {
    q_.start(extend_start(ctx_.attr.sq_psn));
    retry_.reset();
    since_ack_req_ = 0;
    probe_wanted_ = false;
}

bool Requester::poll_transmit(Instant now, TxBudget& budget, TxBatch& batch) {
    settle_local_error();
    // IBTA 9.7.5.2.8: during an RNR wait nothing is sent, new work neither.
    if (retry_.rnr_waiting(now)) return false;
    retry_.rnr_done();
    if (probe_wanted_ && !send_probe(now, batch)) return true;
    while (ctx_.can_request()) {
        q_.skip_acknowledged();
        if (q_.cur_seq == q_.ring.tail()) break;
        SendEntry& e = q_.ring.at(q_.cur_seq);
        if (!may_send(e)) break;
        if (e.is_local()) {
            q_.pass_local();
            continue;
        }
        const uint32_t payload = e.sends_payload() ? payload_at(e.wqe.length, ctx_.mtu, q_.cur - e.first) : 0;
        if (batch.full() || budget.exhausted(payload)) return true;
        const Built built = build(now, e, payload, batch);
        if (built == Built::NoRoom) return true;
        if (built != Built::Ok) continue;
        budget.spend(payload);
        if (q_.cur == q_.high) build_middles(now, e, budget, batch);
    }
    return false;
}

// What is asked above for each packet, all at once: nothing happens between the packets of a message that are sent for
// the first time, one behind the other, except for what is counted here.
void Requester::build_middles(Instant now, const SendEntry& e, TxBudget& budget, TxBatch& batch) {
    if (!e.sends_payload() || q_.cur + 1 >= e.end) return;
    const uint64_t window = ctx_.config.window_packets;
    uint64_t out = q_.requests_out();
    const uint64_t most = std::min({e.end - 1 - q_.cur, uint64_t{budget.bytes / ctx_.mtu}, window - std::min(window, out)});
    const uint32_t first = batch.count;
    const uint32_t n = build_middle_packets(ctx_, q_, most, batch);
    if (n == 0) return;
    // One stands for all: it is not the oldest that is outstanding, and was sent at the same time.
    retry_.packet_sent(now, {q_.cur, q_.cur + 1, false, false});
    for (uint32_t i = 0; i < n; ++i) batch.packets[first + i].ack_req = ack_due(++out >= window);
    q_.requests_sent += n;
    q_.cur += n;
    q_.high = q_.cur;
    budget.spend(n * ctx_.mtu);
}

bool Requester::may_send(SendEntry& e) {
    if (e.local_error != WcStatus::Success) return false;
    if (q_.cur_seq == q_.started_seq) return start_wqe(e);
    if (e.is_local()) return true;
    return q_.cur < q_.high || window_open();
}

bool Requester::start_wqe(SendEntry& e) {
    // IBTA 10.3.1.5: SQD finishes what was begun and begins nothing.
    if (ctx_.state() != QpState::Rts || !window_open()) return false;
    // IBTA 10.8.3.3: a fence waits for the data of all READs and atomics before it.
    if ((e.wqe.flags & send_flags::kFence) &&
        (q_.una < q_.data_end || ctx_.dma.placed(DmaOwner::Completer) < q_.data_mark))
        return false;
    WcStatus wrong = check_wqe(e);
    // IBTA 10.6.7.2: a bind or an invalidation against the rules is a memory management operation error.
    if (wrong == WcStatus::Success && e.is_local() && !run_local_operation(ctx_, e.wqe)) wrong = WcStatus::MwBindErr;
    if (wrong != WcStatus::Success) {
        e.local_error = wrong;
        settle_local_error();
        return false;
    }
    if (e.is_local()) return true;
    if (e.wants_data() && !may_read()) return false;
    if (takes_receive(e.wqe.opcode) && !q_.credits.allow(q_.outstanding())) return false;
    const uint32_t packets = e.is_atomic() ? 1 : packets_of(e.wqe.length, ctx_.mtu);
    if (q_.high + packets - q_.una > kMaxOutstandingPsns) return false;
    e.first = q_.high;
    e.end = e.first + packets;
    e.first_request = q_.requests_sent;
    ++q_.started_seq;
    q_.credits.started(takes_receive(e.wqe.opcode));
    if (e.wants_data()) {
        ++q_.data_requests;
        q_.data_end = e.end;
    }
    return true;
}

// IBTA 9.7.3.1: no more READs and atomics than the responder has resources. And (ours) no more responses on their way
// than can be placed: one that finds no room would have to be asked for again. A READ that is larger than that goes by
// itself.
bool Requester::may_read() const {
    return q_.data_requests < ctx_.attr.max_rd_atomic &&
           (q_.data_requests == 0 || q_.responses_expected(ctx_.dma.half()) < ctx_.dma.half());
}

WcStatus Requester::check_wqe(const SendEntry& e) const {
    if (e.wqe.preset_error != WcStatus::Success) return e.wqe.preset_error;
    if (!request_supported(ctx_.config.type, e.wqe.opcode)) return WcStatus::LocQpOpErr;
    if (e.wqe.length > kMaxMessageBytes) return WcStatus::LocLenErr;
    if (!e.wants_data()) return WcStatus::Success;
    if (ctx_.attr.max_rd_atomic == 0) return WcStatus::LocQpOpErr;
    if (!e.is_read() && e.wqe.length != sizeof(uint64_t)) return WcStatus::LocLenErr;
    if (e.sends_payload()) return WcStatus::Success;
    // The place for the answer is checked before anything is asked for; it is checked again when the data comes.
    std::array<memory::Segment, kMaxSge> segments;
    uint32_t count = 0;
    const SgeStatus s = resolve_range(ctx_.env.keys, ctx_.config.pd, q_.sges_of(q_.cur_seq), 0, e.wqe.length,
                                      access_flags::kLocalWrite, segments, count);
    return s == SgeStatus::Ok ? WcStatus::Success : s == SgeStatus::Short ? WcStatus::LocLenErr : WcStatus::LocProtErr;
}

// An ACK is asked for where nothing may follow for a while, so that the ACK timer never has to find out.
bool Requester::wants_ack(const SendEntry& e) {
    const bool again = q_.cur < q_.high;
    const bool ends_message = e.wants_data() || q_.cur + 1 == e.end;
    const bool closes = again ? q_.cur + 1 == q_.high : q_.requests_out() + 1 >= ctx_.config.window_packets;
    return ack_due(ends_message || closes);
}

bool Requester::ack_due(bool nothing_may_follow) {
    if (!nothing_may_follow && ++since_ack_req_ < std::max(ctx_.config.window_packets / 4, 1u)) return false;
    since_ack_req_ = 0;
    return true;
}

Built Requester::build(Instant now, SendEntry& e, uint32_t payload, TxBatch& batch) {
    const uint64_t psn = q_.cur;
    const bool again = psn < q_.high;
    const Built built = e.sends_payload() ? build_message_packet(ctx_, q_, payload, batch) : build_data_request(e, batch);
    if (built != Built::Ok) {
        if (built == Built::Failed) settle_local_error();
        return built;
    }
    TxPacket& p = batch.packets[batch.count - 1];
    p.ack_req = wants_ack(e);
    if (again)
        ctx_.count(Counter::retransmitted_packets);
    else
        ++q_.requests_sent;
    q_.cur = e.wants_data() ? e.end : psn + 1;
    q_.high = std::max(q_.high, q_.cur);
    if (q_.cur == e.end) ++q_.cur_seq;
    retry_.packet_sent(now, {psn, q_.high, again, psn == q_.una});
    return Built::Ok;
}

// READ and atomic requests. IBTA 9.7.5.1.4 and 9.7.3: a READ that is continued asks for the rest only, with the PSN of
// the first missing response.
Built Requester::build_data_request(const SendEntry& e, TxBatch& batch) {
    const uint64_t offset = (q_.cur - e.first) * ctx_.mtu;
    TxPacket& p = add_packet(batch, ctx_.qp, request_opcode(ctx_.config.type, e.wqe.opcode, true, true), psn_of(q_.cur), 0);
    p.srqn = e.wqe.srqn;
    p.remote_addr = e.wqe.remote_addr + offset;
    p.rkey = e.wqe.rkey;
    if (e.is_read()) {
        p.dma_len = static_cast<uint32_t>(e.wqe.length - offset);
    } else if (e.wqe.opcode == WrOpcode::AtomicCmpAndSwp) {
        p.compare_add = e.wqe.compare_add;
        p.swap = e.wqe.swap;
    } else {
        p.swap = e.wqe.compare_add;
    }
    return Built::Ok;
}

void Requester::gather_failed(uint64_t psn) {
    // Acknowledged meanwhile: it was a repetition, and its memory need not be there any more. But what stood behind it has
    // not left either, and counts as sent.
    if (psn < q_.una) return q_.rewind();
    for (uint64_t seq = q_.una_seq; seq != q_.started_seq; ++seq) {
        SendEntry& e = q_.ring.at(seq);
        if (psn >= e.end) continue;
        e.local_error = WcStatus::LocProtErr;
        if (q_.cur > psn) {
            q_.cur = psn;
            q_.cur_seq = seq;
        }
        settle_local_error();
        return;
    }
}

void Requester::settle_local_error() {
    if (q_.una_seq == q_.ring.tail() || !ctx_.can_request()) return;
    // IBTA 10.3.1.5: what SQD does not begin does not fail in it either: the program was told that the queue is drained.
    if (ctx_.state() == QpState::Sqd && q_.nothing_begun()) return;
    const SendEntry& e = q_.ring.at(q_.una_seq);
    if (e.local_error == WcStatus::Success || ctx_.dma.placed(DmaOwner::Completer) < q_.data_mark) return;
    fail_send(ctx_, q_, q_.una_seq, e.local_error);
    retry_.stop();
}

Instant Requester::next_deadline() const {
    if (!ctx_.can_request()) return kNever;
    const Instant probe = may_probe() ? retry_.probe_due(q_.ring.at(q_.una_seq).is_read()) : kNever;
    return std::min(retry_.deadline(), probe);
}

void Requester::handle_timeout(Instant now) {
    if (!ctx_.can_request()) return;
    if (retry_.timed_out(now)) {
        ctx_.count(Counter::local_ack_timeout_err);
        if (retry_.on_timeout(now) != RetryVerdict::Exhausted) return q_.rewind();
        ctx_.count(Counter::req_transport_retries_exceeded);
        fail_send(ctx_, q_, q_.una_seq, WcStatus::RetryExcErr);
        retry_.stop();
        return;
    }
    if (may_probe() && now >= retry_.probe_due(q_.ring.at(q_.una_seq).is_read())) {
        retry_.prober().probed(now, q_.una);
        probe_wanted_ = true;
    }
}

bool Requester::may_probe() const {
    return q_.outstanding() && q_.cur == q_.high && q_.ring.at(q_.una_seq).local_error == WcStatus::Success;
}

// The oldest packet once more; the cursor stays where it was.
bool Requester::send_probe(Instant now, TxBatch& batch) {
    if (!ctx_.can_request() || !may_probe()) {
        probe_wanted_ = false;
        return true;
    }
    if (batch.full()) return false;
    const uint64_t cur = q_.cur;
    const uint64_t cur_seq = q_.cur_seq;
    q_.rewind();
    SendEntry& e = q_.ring.at(q_.una_seq);
    const Built built = build(now, e, e.sends_payload() ? payload_at(e.wqe.length, ctx_.mtu, q_.cur - e.first) : 0, batch);
    q_.cur = cur;
    q_.cur_seq = cur_seq;
    if (built == Built::NoRoom) return false;
    probe_wanted_ = false;
    if (built == Built::Ok) batch.packets[batch.count - 1].ack_req = true;
    return true;
}

}  // namespace rocemu::transport
