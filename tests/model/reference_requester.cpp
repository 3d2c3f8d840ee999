// SPDX-License-Identifier: BSD-3-Clause
// See reference_requester.h.
#include "tests/model/reference_requester.h"

#include <algorithm>
#include <cstring>

#include "base/psn.h"
#include "transport/rnr_timer.h"

namespace rocemu::model {

using wire::AethKind;
using wire::NakCode;
using wire::Opcode;
using wire::Operation;

namespace {

Opcode opcode_of(WrOpcode op, bool first, bool last) {
    const bool write = op == WrOpcode::RdmaWrite || op == WrOpcode::RdmaWriteWithImm;
    const bool imm = op == WrOpcode::RdmaWriteWithImm || op == WrOpcode::SendWithImm;
    switch (op) {
        case WrOpcode::RdmaRead:
            return Opcode::RcReadRequest;
        case WrOpcode::AtomicCmpAndSwp:
            return Opcode::RcCompareSwap;
        case WrOpcode::AtomicFetchAndAdd:
            return Opcode::RcFetchAdd;
        default:
            break;
    }
    if (first && last)
        return write ? (imm ? Opcode::RcWriteOnlyImm : Opcode::RcWriteOnly)
                     : (imm ? Opcode::RcSendOnlyImm : Opcode::RcSendOnly);
    if (first) return write ? Opcode::RcWriteFirst : Opcode::RcSendFirst;
    if (last)
        return write ? (imm ? Opcode::RcWriteLastImm : Opcode::RcWriteLast)
                     : (imm ? Opcode::RcSendLastImm : Opcode::RcSendLast);
    return write ? Opcode::RcWriteMiddle : Opcode::RcSendMiddle;
}

WcOpcode completion_of(WrOpcode op) {
    switch (op) {
        case WrOpcode::RdmaWrite:
        case WrOpcode::RdmaWriteWithImm:
            return WcOpcode::RdmaWrite;
        case WrOpcode::RdmaRead:
            return WcOpcode::RdmaRead;
        case WrOpcode::AtomicCmpAndSwp:
            return WcOpcode::CompSwap;
        case WrOpcode::AtomicFetchAndAdd:
            return WcOpcode::FetchAdd;
        default:
            return WcOpcode::Send;
    }
}

}  // namespace

ReferenceRequester::ReferenceRequester(const Settings& s, ReferenceMemory& memory, uint32_t first_psn)
    : settings_(s),
      memory_(memory),
      mtu_(128u << s.mtu),
      first_psn_(first_psn),
      retries_(s.retry_cnt),
      rnr_retries_(s.rnr_retry) {}

void ReferenceRequester::post(const SendRequest& request) {
    Message m;
    m.request = request;
    m.read = request.wqe.opcode == WrOpcode::RdmaRead;
    const bool atomic =
        request.wqe.opcode == WrOpcode::AtomicCmpAndSwp || request.wqe.opcode == WrOpcode::AtomicFetchAndAdd;
    m.wants_data = m.read || atomic;
    uint32_t length = 0;
    for (const Sge& s : request.sges) length += s.length;
    m.request.wqe.length = length;
    const uint64_t psns = length == 0 || atomic ? 1 : (length + mtu_ - 1) / mtu_;
    uint64_t offset = packets_.empty() ? 0 : packets_.back().offset + packets_.back().span;
    if (m.read) {
        packets_.push_back({messages_.size(), offset, psns, 0, true, true});
    } else {
        for (uint64_t i = 0; i < psns; ++i, ++offset)
            packets_.push_back({messages_.size(), offset, 1, 0, i == 0, i + 1 == psns});
    }
    m.packets_end = packets_.size();
    messages_.push_back(std::move(m));
}

uint64_t ReferenceRequester::oldest() const {
    return packets_[una_].offset + packets_[una_].got;
}

uint64_t ReferenceRequester::sent_end() const {
    return sent_ == 0 ? 0 : packets_[sent_ - 1].offset + packets_[sent_ - 1].span;
}

bool ReferenceRequester::may_send(const Packet& p) const {
    const Message& m = messages_[p.message];
    if (m.local_error != WcStatus::Success || next_ - una_ >= settings_.ref_window) return false;
    if (next_ < sent_) return true;
    if (draining && p.first) return false;
    uint32_t data = 0;
    for (size_t i = una_; i < next_; ++i) data += messages_[packets_[i].message].wants_data;
    if (m.wants_data && data >= settings_.rd_atomic) return false;
    return !((m.request.wqe.flags & send_flags::kFence) && p.first && data > 0);
}

void ReferenceRequester::poll(Instant now) {
    if (failed) return;
    if (now < rnr_until_) return;
    rnr_waiting_ = false;
    while (next_ < packets_.size() && may_send(packets_[next_])) {
        Ask a;
        if (!build(packets_[next_], a)) {
            messages_[packets_[next_].message].local_error = WcStatus::LocProtErr;
            break;
        }
        asks.push_back(std::move(a));
        ++next_;
        sent_ = std::max(sent_, next_);
        if (deadline_ == kNever) deadline_ = now + (Duration{4096} << settings_.timeout) * 2;
    }
    if (una_ < packets_.size() && messages_[packets_[una_].message].local_error != WcStatus::Success)
        fail(messages_[packets_[una_].message].local_error);
}

bool ReferenceRequester::build(const Packet& p, Ask& a) {
    const Message& m = messages_[p.message];
    const auto& w = m.request.wqe;
    // A READ goes on where its answer broke off, or begins anew.
    const uint64_t skip = m.read && !settings_.ref_read_whole ? p.got : 0;
    a.opcode = opcode_of(w.opcode, p.first, p.last);
    a.psn = static_cast<uint32_t>(first_psn_ + p.offset + skip) & Psn::kMask;
    a.ack_req = p.last || settings_.ref_ack_all || next_ + 1 - una_ >= settings_.ref_window;
    a.solicited = p.last && (w.flags & send_flags::kSolicited) && w.opcode != WrOpcode::RdmaWrite && !m.wants_data;
    a.ext.reth = {w.remote_addr + skip * mtu_, w.rkey, static_cast<uint32_t>(w.length - skip * mtu_)};
    a.ext.immdt = {__builtin_bswap32(w.imm_data)};
    const bool swap = w.opcode == WrOpcode::AtomicCmpAndSwp;
    a.ext.atomic_eth = {w.remote_addr, w.rkey, swap ? w.swap : w.compare_add, swap ? w.compare_add : 0};
    if (m.wants_data) {
        // The place for the answer must exist.
        for (uint64_t i = 0; i < w.length; ++i)
            if (!memory_.byte_of(m.request.sges, i)) return false;
        return true;
    }
    const uint64_t from =
        (p.offset - packets_[m.packets_end - 1].offset + (w.length == 0 ? 0 : (w.length - 1) / mtu_)) * mtu_;
    a.payload.resize(std::min<uint64_t>(mtu_, w.length - from));
    if (w.mapped != nullptr) {
        std::copy_n(w.mapped + from, a.payload.size(), a.payload.begin());
        return true;
    }
    return memory_.gather(m.request.sges, from, a.payload);
}

bool ReferenceRequester::reach(uint64_t offset) {
    while (una_ < sent_ && oldest() < offset) {
        if (messages_[packets_[una_].message].wants_data) return false;
        ++una_;
    }
    next_ = std::max(next_, una_);
    return true;
}

void ReferenceRequester::progress(Instant now) {
    retries_ = settings_.retry_cnt;
    rnr_retries_ = settings_.rnr_retry;
    went_back_ = false;
    deadline_ = una_ == sent_ ? kNever : now + (Duration{4096} << settings_.timeout) * 2;
    complete_done();
}

void ReferenceRequester::complete_done() {
    while (completed_ < messages_.size() && messages_[completed_].packets_end <= una_) {
        const auto& w = messages_[completed_++].request.wqe;
        transport::Completion c{};
        c.opcode = completion_of(w.opcode);
        c.byte_len = w.length;
        c.visible = settings_.sq_sig_all || (w.flags & send_flags::kSignaled);
        on_send(c);
    }
}

void ReferenceRequester::go_back(bool pay) {
    if (went_back_) return;
    went_back_ = true;
    next_ = una_;
    deadline_ = kNever;
    if (!pay) return;
    if (retries_ == 0) return fail(WcStatus::RetryExcErr);
    --retries_;
}

void ReferenceRequester::fail(WcStatus status) {
    if (failed) return;
    failed = true;
    deadline_ = kNever;
    transport::Completion c{};
    c.status = status;
    c.visible = true;
    c.opcode = completion_of(messages_[completed_++].request.wqe.opcode);
    on_send(c);
}

void ReferenceRequester::flush() {
    failed = true;
    deadline_ = kNever;
    while (completed_ < messages_.size()) {
        transport::Completion c{};
        c.status = WcStatus::WrFlushErr;
        c.visible = true;
        c.opcode = completion_of(messages_[completed_++].request.wqe.opcode);
        on_send(c);
    }
}

void ReferenceRequester::timers(Instant now) {
    if (failed || now < deadline_) return;
    deadline_ = kNever;
    went_back_ = false;
    go_back(true);
}

Instant ReferenceRequester::deadline() const {
    if (failed) return kNever;
    return std::min(deadline_, rnr_waiting_ ? rnr_until_ : kNever);
}

void ReferenceRequester::handle(const wire::PacketView& p, Instant now) {
    if (failed || una_ == sent_) return;
    const uint64_t ahead = (p.bth.psn - first_psn_ - oldest()) & Psn::kMask;
    if (ahead >= sent_end() - oldest()) return;  // an old one
    const uint64_t offset = oldest() + ahead;
    const size_t before = una_;
    if (p.op->operation != Operation::Acknowledge) {
        const bool reached = reach(offset);
        if (una_ != before) progress(now);
        return reached ? on_data(p, offset, now) : go_back(true);
    }
    const wire::Aeth aeth = p.aeth();
    const bool ack = aeth.kind() == AethKind::Ack;
    const bool reached = reach(ack ? offset + 1 : offset);
    if (una_ != before) progress(now);
    if (!reached) return go_back(true);
    if (ack) return;
    if (aeth.kind() == AethKind::RnrNak) {
        if (rnr_waiting_) return;
        if (settings_.rnr_retry != 7 && rnr_retries_-- == 0) return fail(WcStatus::RnrRetryExcErr);
        went_back_ = false;
        go_back(false);
        went_back_ = false;
        rnr_waiting_ = true;
        rnr_until_ = now + transport::rnr_delay(aeth.rnr_timer_code());
        return;
    }
    if (aeth.kind() != AethKind::Nak) return;
    switch (aeth.nak_code()) {
        case NakCode::PsnSequenceError:
            return go_back(true);
        case NakCode::InvalidRequest:
            return fail(WcStatus::RemInvReqErr);
        case NakCode::RemoteAccessError:
            return fail(WcStatus::RemAccessErr);
        default:
            return fail(WcStatus::RemOpErr);
    }
}

void ReferenceRequester::on_data(const wire::PacketView& p, uint64_t offset, Instant now) {
    Packet& request = packets_[una_];
    const Message& m = messages_[request.message];
    const auto& w = m.request.wqe;
    if (!m.wants_data || m.read != (p.op->operation == Operation::ReadResponse)) return fail(WcStatus::BadRespErr);
    bool ok = true;
    if (m.read) {
        const uint64_t from = (offset - request.offset) * mtu_;
        const bool last = offset + 1 == request.offset + request.span;
        if (p.payload.size() != std::min<uint64_t>(mtu_, w.length - from) || p.op->ends_message() != last)
            return fail(WcStatus::BadRespErr);
        ok = memory_.scatter(m.request.sges, from, p.payload);
    } else {
        uint64_t original = p.atomic_ack_eth().original;
        std::array<std::byte, 8> bytes;
        std::memcpy(bytes.data(), &original, 8);
        ok = memory_.scatter(m.request.sges, 0, bytes);
    }
    if (!ok) return fail(WcStatus::LocProtErr);
    if (++request.got == request.span) {
        ++una_;
        next_ = std::max(next_, una_);
    }
    progress(now);
}

}  // namespace rocemu::model
