// SPDX-License-Identifier: BSD-3-Clause
// See unacked_requester.h. The borders of SendQueue mean: una = what has left, cur = high = what was polled.
#include "transport/unacked_requester.h"

#include <algorithm>

#include "transport/local_operation.h"
#include "transport/message_packet.h"
#include "transport/request_opcode.h"
#include "wire/eth.h"

namespace rocemu::transport {

bool UnackedRequester::poll_transmit(TxBudget& budget, TxBatch& batch) {
    settle_error();
    while (ctx_.can_request() && q_.cur_seq != q_.ring.tail()) {
        SendEntry& e = q_.ring.at(q_.cur_seq);
        if (e.local_error != WcStatus::Success) break;
        if (q_.cur_seq == q_.started_seq && !start_wqe(e)) break;
        if (e.is_local()) {
            q_.pass_local();
            continue;
        }
        const uint32_t payload = payload_at(e.wqe.length, ctx_.mtu, q_.cur - e.first);
        if (batch.full() || budget.exhausted(payload)) return true;
        switch (build_message_packet(ctx_, q_, payload, batch)) {
            case Built::NoRoom:
                return true;
            case Built::Failed:
                settle_error();
                return false;
            case Built::Ok:
                break;
        }
        budget.spend(payload);
        q_.high = ++q_.cur;
        if (q_.cur + 1 < e.end) {
            const uint32_t n =
                build_middle_packets(ctx_, q_, std::min(e.end - 1 - q_.cur, uint64_t{budget.bytes / ctx_.mtu}), batch);
            budget.spend(n * ctx_.mtu);
            q_.high = q_.cur += n;
        }
        if (q_.cur == e.end) ++q_.cur_seq;
    }
    return false;
}

bool UnackedRequester::start_wqe(SendEntry& e) {
    if (ctx_.state() != QpState::Rts) return false;  // IBTA 10.3.1.5: SQD begins nothing
    WcStatus wrong = check_wqe(e);
    // IBTA 10.6.7.2, as in requester.cpp.
    if (wrong == WcStatus::Success && e.is_local() && !run_local_operation(ctx_, e.wqe)) wrong = WcStatus::MwBindErr;
    if (wrong != WcStatus::Success) {
        e.local_error = wrong;
        settle_error();
        return false;
    }
    if (e.is_local()) return true;
    e.first = q_.high;
    e.end = e.first + packets_of(e.wqe.length, ctx_.mtu);
    ++q_.started_seq;
    return true;
}

WcStatus UnackedRequester::check_wqe(const SendEntry& e) const {
    if (e.wqe.preset_error != WcStatus::Success) return e.wqe.preset_error;
    if (!request_supported(ctx_.config.type, e.wqe.opcode)) return WcStatus::LocQpOpErr;
    // DEVIATION: IBTA C10-93.1.1 lets a datagram above the MTU vanish without an error. NICs report LOC_LEN_ERR, and
    // so do we: a program that loses all its messages should be told.
    // A raw packet that the port cannot send, or without an Ethernet header, is no frame.
    const uint64_t most = ctx_.config.type == QpType::Uc ? kMaxMessageBytes : ctx_.mtu;
    const uint64_t least = ctx_.config.type == QpType::RawPacket ? wire::EthHeader::kSize : 0;
    return e.wqe.length > most || e.wqe.length < least ? WcStatus::LocLenErr : WcStatus::Success;
}

void UnackedRequester::transmitted() {
    if (!ctx_.can_request()) return;
    (void)q_.acknowledge(q_.cur);
    settle_error();
}

void UnackedRequester::gather_failed(uint64_t psn) {
    if (!ctx_.can_request() || psn < q_.una || psn >= q_.cur) return;
    (void)q_.acknowledge(psn);
    q_.ring.at(q_.una_seq).local_error = WcStatus::LocProtErr;
    // What stands behind it has not left.
    q_.cur = q_.high = psn;
    q_.cur_seq = q_.una_seq;
    q_.started_seq = q_.una_seq + 1;
    settle_error();
}

// IBTA 10.3.1.6: a completion error of a UC or UD send queue leads to SQE, where the rest is flushed.
void UnackedRequester::settle_error() {
    if (q_.una != q_.cur || q_.una_seq == q_.ring.tail() || !ctx_.can_request()) return;
    if (ctx_.state() == QpState::Sqd && q_.nothing_begun()) return;  // IBTA 10.3.1.5: it does not fail before it is begun
    const WcStatus error = q_.ring.at(q_.una_seq).local_error;
    if (error == WcStatus::Success) return;
    q_.failed = true;
    q_.failed_seq = q_.una_seq;
    q_.failed_status = error;
    ctx_.attr.state = QpState::Sqe;
}

}  // namespace rocemu::transport
