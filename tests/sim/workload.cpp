// SPDX-License-Identifier: BSD-3-Clause
// See workload.h. Memory layout of an endpoint: an atomic counter, then the lower half for what the endpoint sends and
// reads into, the upper half for what its peer places here.
#include "tests/sim/workload.h"

#include "transport/request_opcode.h"

namespace rocemu::sim {

using transport::Completion;

namespace {
constexpr uint64_t kHeader = 64;
// Windows are used in turn: each has been invalidated when its turn comes again.
constexpr uint32_t kWindows = 1024, kFirstWindow = 0x100;

std::byte pattern_byte(uint64_t pattern, uint64_t i) {
    return static_cast<std::byte>((pattern * 131 + i * 7 + (i >> 8) * 13) & 0xff);
}
}  // namespace

Workload::Workload(Endpoint& from, Endpoint& to, const WorkloadOptions& options)
    : from_(from),
      to_(to),
      options_(options),
      random_(options.seed),
      from_next_(kMemoryBase + kHeader),
      to_next_(kMemoryBase + to.memory.size() / 2),
      from_end_(kMemoryBase + from.memory.size() / 2),
      to_end_(kMemoryBase + to.memory.size()),
      counter_va_(kMemoryBase + 8) {}

std::vector<Sge> Workload::carve(Endpoint& e, uint64_t& next, uint32_t bytes, uint32_t extra) {
    (void)e;
    std::vector<Sge> sges;
    uint32_t left = bytes + extra;
    const auto pieces = static_cast<uint32_t>(random_.between(1, options_.max_sges));
    for (uint32_t i = 0; i < pieces; ++i) {
        const uint32_t n = i + 1 == pieces ? left : static_cast<uint32_t>(random_.below(left + 1));
        sges.push_back({next, n, kKey});
        next += n + random_.below(5);  // unaligned, with gaps
        left -= n;
    }
    return sges;
}

void Workload::fill(Endpoint& e, const std::vector<Sge>& sges, uint64_t pattern) {
    uint64_t i = 0;
    for (const Sge& s : sges)
        for (uint32_t k = 0; k < s.length; ++k) e.memory.at(s.addr)[k] = pattern_byte(pattern, i++);
}

bool Workload::holds(Endpoint& e, const std::vector<Sge>& sges, uint32_t bytes, uint64_t pattern) {
    uint64_t i = 0;
    for (const Sge& s : sges)
        for (uint32_t k = 0; k < s.length; ++k, ++i) {
            // Behind the message nothing may have been written.
            const std::byte want = i < bytes ? pattern_byte(pattern, i) : std::byte{0};
            if (e.memory.at(s.addr)[k] != want) return false;
        }
    return true;
}

bool Workload::post() {
    const WrOpcode op = options_.operations[random_.below(options_.operations.size())];
    uint32_t bytes = 0;
    switch (random_.below(4)) {
        case 0:
            bytes = static_cast<uint32_t>(random_.below(5));
            break;
        case 1:
            bytes = static_cast<uint32_t>(random_.below(300));
            break;
        default:
            bytes = static_cast<uint32_t>(random_.below(options_.max_bytes + 1));
            break;
    }
    return post(op, bytes);
}

bool Workload::post(WrOpcode op, uint32_t bytes) {
    if (has_eight_bytes(op)) bytes = 8;
    if (from_next_ + bytes + 1024 > from_end_ || to_next_ + bytes + 1024 > to_end_) return false;
    Message m;
    m.op = op;
    m.bytes = bytes;
    m.pattern = messages_.size() + options_.seed * 1000;
    m.imm = static_cast<uint32_t>(random_.next());
    if (op == WrOpcode::SendWithInv) {
        m.imm = (kFirstWindow + windows_ % kWindows) << 8 | (windows_ / kWindows & 0xff);
        if (windows_++ < kWindows) to_.keys.remove_window(m.imm);  // of traffic before this
        to_.bind_window(m.imm);
    }
    m.signaled = !random_.chance(options_.unsignaled);
    m.local = carve(from_, from_next_, bytes, 0);
    PostedSend wr;
    wr.wqe.opcode = op;
    wr.wqe.flags = static_cast<uint8_t>((m.signaled ? send_flags::kSignaled : 0) |
                                        (random_.chance(options_.fenced) ? send_flags::kFence : 0));
    wr.wqe.imm_data = m.imm;
    wr.wqe.rkey = kKey;
    if (is_atomic(op)) {
        wr.wqe.remote_addr = counter_va_;
        m.atomic_before = counter_value_;
        wr.wqe.compare_add = random_.below(1000);
        if (op == WrOpcode::AtomicFetchAndAdd) {
            counter_value_ += wr.wqe.compare_add;
        } else {
            wr.wqe.swap = random_.next();
            if (random_.chance(0.5)) wr.wqe.compare_add = counter_value_;
            if (wr.wqe.compare_add == counter_value_) counter_value_ = wr.wqe.swap;
        }
    } else if (op == WrOpcode::RdmaRead) {
        m.remote = to_next_;
        to_next_ += bytes + random_.below(5);
        fill(to_, {{m.remote, bytes, kKey}}, m.pattern);
    } else {
        fill(from_, m.local, m.pattern);
        if (!is_send(op)) {
            if (op == WrOpcode::AtomicWrite) to_next_ = (to_next_ + 7) & ~uint64_t{7};
            m.remote = to_next_;
            to_next_ += bytes + random_.below(5);
        }
    }
    if (!is_atomic(op)) wr.wqe.remote_addr = m.remote;
    if (transport::takes_receive(op)) {
        m.receive = carve(to_, to_next_, is_send(op) ? bytes : 0, static_cast<uint32_t>(random_.below(9)));
        receives_.push_back(messages_.size());
        to_.receive(m.receive);
    }
    wr.sges = m.local;
    messages_.push_back(std::move(m));
    from_.send(std::move(wr));
    return true;
}

void Workload::fail(const char* what, size_t index) {
    const Message& m = messages_[index];
    errors.push_back(std::string(what) + ": message " + std::to_string(index) + " op " +
                     std::to_string(static_cast<int>(m.op)) + " bytes " + std::to_string(m.bytes));
}

void Workload::on_send(const Completion& c) {
    const size_t i = completed_++;
    const Message& m = messages_.at(i);
    if (c.status != WcStatus::Success)
        return fail(("send status " + std::to_string(static_cast<int>(c.status))).c_str(), i);
    if (c.visible != m.signaled) fail("visibility", i);
    if (m.op == WrOpcode::RdmaRead && !holds(from_, m.local, m.bytes, m.pattern)) fail("READ data", i);
    // An ACK promises that the data is in place.
    if (m.remote != 0 && !holds(to_, {{m.remote, m.bytes, kKey}}, m.bytes, m.pattern)) fail("remote data", i);
    if (is_send(m.op) && !holds(to_, m.receive, m.bytes, m.pattern)) fail("SEND data at ACK", i);
    if (is_atomic(m.op)) {
        uint64_t found = 0;
        auto* out = reinterpret_cast<std::byte*>(&found);
        for (const Sge& s : m.local) out = std::copy_n(from_.memory.at(s.addr), s.length, out);
        if (found != m.atomic_before) fail("atomic result", i);
    }
}

void Workload::on_receive(const Completion& c) {
    const size_t i = receives_.at(received_++);
    const Message& m = messages_[i];
    if (c.status != WcStatus::Success)
        return fail(("receive status " + std::to_string(static_cast<int>(c.status))).c_str(), i);
    if (c.byte_len != m.bytes) fail("byte_len", i);
    const bool write = m.op == WrOpcode::RdmaWriteWithImm;
    if (c.opcode != (write ? WcOpcode::RecvRdmaWithImm : WcOpcode::Recv)) fail("receive opcode", i);
    const uint32_t flags = m.op == WrOpcode::Send          ? 0
                           : m.op == WrOpcode::SendWithInv ? wc_flags::kWithInv
                                                           : wc_flags::kWithImm;
    if ((c.wc_flags & (wc_flags::kWithImm | wc_flags::kWithInv)) != flags) fail("imm flag", i);
    if (flags != 0 && c.imm_data != m.imm) fail("imm data", i);
    if (flags == wc_flags::kWithInv && to_.keys.may_invalidate(m.imm, kPd, to_.qp.config().qpn)) fail("still bound", i);
    if (!holds(to_, m.receive, write ? 0 : m.bytes, m.pattern)) fail("receive data", i);
    if (write && !holds(to_, {{m.remote, m.bytes, kKey}}, m.bytes, m.pattern)) fail("write data", i);
}

Traffic::Traffic(QpPair& p, const WorkloadOptions& options)
    : pair(p), forward(p.a, p.b, options), backward(p.b, p.a, options) {
    p.a.on_completion = [this](const Completion& c) { c.is_recv ? backward.on_receive(c) : forward.on_send(c); };
    p.b.on_completion = [this](const Completion& c) { c.is_recv ? forward.on_receive(c) : backward.on_send(c); };
}

std::string Traffic::first_error() const {
    if (!forward.errors.empty()) return "forward " + forward.errors.front();
    if (!backward.errors.empty()) return "backward " + backward.errors.front();
    if (!pair.a.violations.empty()) return "a: " + pair.a.violations.front();
    if (!pair.b.violations.empty()) return "b: " + pair.b.violations.front();
    return {};
}

}  // namespace rocemu::sim
