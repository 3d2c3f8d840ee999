// SPDX-License-Identifier: BSD-3-Clause
// See reference_responder.h.
#include "tests/model/reference_responder.h"

#include <algorithm>
#include <cstring>

#include "base/psn.h"

namespace rocemu::model {

using wire::Aeth;
using wire::NakCode;
using wire::Opcode;
using wire::Operation;

void ReferenceResponder::handle(const wire::PacketView& p) {
    const int32_t distance = Psn(p.bth.psn).distance_from(Psn(expected_));
    if (distance < 0) return duplicate(p);
    if (distance == 0) return expected(p);
    if (asked_again_) return;
    asked_again_ = true;
    answers.push_back({Opcode::RcAcknowledge, expected_, Aeth::nak(msn_, NakCode::PsnSequenceError), 0, {}});
}

void ReferenceResponder::duplicate(const wire::PacketView& p) {
    if (p.op->operation == Operation::ReadRequest) return read_request(p, true);
    if (!p.op->is_atomic()) return acknowledge();
    const auto saved = atomic_results_.find(p.bth.psn);
    if (saved == atomic_results_.end()) return;
    answers.push_back({Opcode::RcAtomicAcknowledge, p.bth.psn, Aeth::ack(msn_), saved->second, {}});
}

void ReferenceResponder::acknowledge() {
    answers.push_back({Opcode::RcAcknowledge, (expected_ - 1) & Psn::kMask, Aeth::ack(msn_), 0, {}});
}

void ReferenceResponder::refuse(NakCode code) {
    answers.push_back({Opcode::RcAcknowledge, expected_, Aeth::nak(msn_, code), 0, {}});
    refused = true;
}

void ReferenceResponder::expected(const wire::PacketView& p) {
    asked_again_ = false;
    const bool send = p.op->operation == Operation::Send, write = p.op->operation == Operation::Write;
    const bool right_order =
        p.op->starts_message() ? !in_send_ && !in_write_ : (send && in_send_) || (write && in_write_);
    if (!right_order) return refuse(NakCode::InvalidRequest);
    if (send) return send_packet(p);
    if (write) return write_packet(p);
    if (p.op->operation == Operation::ReadRequest) return read_request(p, false);
    if (p.op->is_atomic()) return atomic_request(p);
    refuse(NakCode::InvalidRequest);
}

bool ReferenceResponder::take_receive() {
    if (receives.empty()) {
        asked_again_ = true;
        answers.push_back(
            {Opcode::RcAcknowledge, expected_, Aeth::rnr_nak(msn_, static_cast<uint8_t>(settings_.rnr_timer)), 0, {}});
        return false;
    }
    receive_ = receives.front();
    receives.pop_front();
    has_receive_ = true;
    return true;
}

void ReferenceResponder::complete(const wire::PacketView& p, WcStatus status) {
    transport::Completion c{};
    c.is_recv = c.visible = true;
    c.status = status;
    const bool send = p.op->operation == Operation::Send;
    c.opcode = send ? WcOpcode::Recv : WcOpcode::RecvRdmaWithImm;
    c.byte_len = static_cast<uint32_t>(send ? received_ : write_total_);
    c.solicited = p.bth.solicited;
    if (p.op->has_immediate()) {
        c.wc_flags = wc_flags::kWithImm;
        c.imm_data = __builtin_bswap32(p.immdt().data);
    }
    has_receive_ = false;
    on_receive(c);
}

void ReferenceResponder::flush() {
    transport::Completion c{};
    c.is_recv = c.visible = true;
    c.status = WcStatus::WrFlushErr;
    if (has_receive_) on_receive(c);
    has_receive_ = false;
    for (; !receives.empty(); receives.pop_front()) on_receive(c);
}

void ReferenceResponder::accepted(const wire::PacketView& p, uint32_t psns) {
    expected_ = (expected_ + psns) & Psn::kMask;
    if (p.op->ends_message()) msn_ = (msn_ + 1) & Psn::kMask;
}

void ReferenceResponder::send_packet(const wire::PacketView& p) {
    if (p.op->starts_message()) {
        if (!take_receive()) return;
        received_ = 0;
    }
    uint64_t room = 0;
    for (const Sge& s : receive_.sges) room += s.length;
    if (received_ + p.payload.size() > room) {
        refuse(NakCode::InvalidRequest);
        return complete(p, WcStatus::LocLenErr);
    }
    if (!memory_.scatter(receive_.sges, received_, p.payload)) {
        refuse(NakCode::RemoteOperationalError);
        return complete(p, WcStatus::LocProtErr);
    }
    received_ += p.payload.size();
    in_send_ = !p.op->ends_message();
    accepted(p, 1);
    if (p.op->ends_message()) complete(p, WcStatus::Success);
    if (p.bth.ack_req || settings_.ref_ack_all) acknowledge();
}

void ReferenceResponder::write_packet(const wire::PacketView& p) {
    if (p.op->has_immediate() && !take_receive()) return;
    if (p.op->starts_message()) {
        const wire::Reth reth = p.reth();
        write_va_ = reth.va;
        write_rkey_ = reth.rkey;
        write_total_ = write_left_ = reth.length;
    }
    const uint64_t n = p.payload.size();
    if (p.op->ends_message() ? n != write_left_ : n >= write_left_) return refuse(NakCode::InvalidRequest);
    // The whole of what is announced must be allowed.
    if (!memory_.remote_ok(write_rkey_, write_va_, write_left_)) {
        refuse(NakCode::RemoteAccessError);
        if (has_receive_) complete(p, WcStatus::RemAccessErr);
        return;
    }
    if (memory_.faults(write_va_, n)) return refuse(NakCode::RemoteOperationalError);
    std::copy(p.payload.begin(), p.payload.end(), memory_.at(write_va_));
    write_va_ += n;
    write_left_ -= n;
    in_write_ = !p.op->ends_message();
    accepted(p, 1);
    if (p.op->has_immediate()) complete(p, WcStatus::Success);
    if (p.bth.ack_req || settings_.ref_ack_all) acknowledge();
}

void ReferenceResponder::read_request(const wire::PacketView& p, bool again) {
    const wire::Reth reth = p.reth();
    const bool ok = memory_.remote_ok(reth.rkey, reth.va, reth.length);
    if (again && (!ok || memory_.faults(reth.va, reth.length))) return;  // a duplicate is never NAKed
    if (!ok) return refuse(NakCode::RemoteAccessError);
    if (memory_.faults(reth.va, reth.length)) return refuse(NakCode::RemoteOperationalError);
    const uint32_t packets = reth.length == 0 ? 1 : (reth.length + mtu_ - 1) / mtu_;
    if (!again) accepted(p, packets);
    for (uint32_t i = 0; i < packets; ++i) {
        const bool last = i + 1 == packets;
        const Opcode op = i == 0 ? (last ? Opcode::RcReadResponseOnly : Opcode::RcReadResponseFirst)
                                 : (last ? Opcode::RcReadResponseLast : Opcode::RcReadResponseMiddle);
        const uint32_t n = last ? reth.length - i * mtu_ : mtu_;
        const std::byte* from = memory_.at(reth.va + uint64_t{i} * mtu_);
        Answer a{op, (p.bth.psn + i) & Psn::kMask, Aeth::ack(msn_), 0, {}};
        if (n != 0) a.payload.assign(from, from + n);
        answers.push_back(std::move(a));
    }
}

void ReferenceResponder::atomic_request(const wire::PacketView& p) {
    const wire::AtomicEth eth = p.atomic_eth();
    if (eth.va % 8 != 0) return refuse(NakCode::InvalidRequest);
    if (!memory_.remote_ok(eth.rkey, eth.va, 8)) return refuse(NakCode::RemoteAccessError);
    if (memory_.faults(eth.va, 8)) return refuse(NakCode::RemoteOperationalError);
    uint64_t value = 0;
    std::memcpy(&value, memory_.at(eth.va), 8);
    const uint64_t original = value;
    if (p.op->operation == Operation::FetchAdd)
        value += eth.swap_or_add;
    else if (value == eth.compare)
        value = eth.swap_or_add;
    std::memcpy(memory_.at(eth.va), &value, 8);
    atomic_results_[p.bth.psn] = original;
    const uint32_t psn = expected_;
    accepted(p, 1);
    answers.push_back({Opcode::RcAtomicAcknowledge, psn, Aeth::ack(msn_), original, {}});
}

}  // namespace rocemu::model
