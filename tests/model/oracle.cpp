// SPDX-License-Identifier: BSD-3-Clause
// See oracle.h. Memory of a party: 64 bytes of header (the counter that the peer's atomics work on), a half for what it
// sends and reads into, a half for what its peer places there.
#include "tests/model/oracle.h"

#include <algorithm>
#include <cstring>

#include "tests/sim/memory.h"

namespace rocemu::model {

using transport::Completion;

namespace {

constexpr uint64_t kHeader = 64;
constexpr uint64_t kCounter = sim::kMemoryBase + 8;

WcOpcode send_opcode(const Message& m) {
    switch (m.op) {
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

uint64_t Oracle::memory_needed(const Schedule& s) {
    uint64_t half = 256;
    for (const Post& p : s.posts) half += p.bytes + 128;
    return kHeader + 2 * half;
}

Oracle::Oracle(const Schedule& s, uint32_t side, Party& from, Party& to)
    : from_(from),
      to_(to),
      random_(s.seed * 2 + side),
      side_(side),
      mtu_(128u << s.settings.mtu),
      psn_start_(side == 0 ? s.settings.psn_a : s.settings.psn_b),
      sig_all_(s.settings.sq_sig_all != 0),
      counter_(random_.next()),
      from_next_(sim::kMemoryBase + kHeader),
      to_next_(sim::kMemoryBase + kHeader + (memory_needed(s) - kHeader) / 2) {
    std::memcpy(to.memory(kCounter), &counter_, sizeof counter_);
    to_end_ = sim::kMemoryBase + memory_needed(s);
}

std::vector<Sge> Oracle::carve(uint64_t& next, uint64_t bytes, uint32_t pieces, uint32_t key) {
    std::vector<Sge> sges;
    for (uint32_t i = 0; i < pieces; ++i) {
        const uint64_t n = i + 1 == pieces ? bytes : random_.below(bytes + 1);
        sges.push_back({next, static_cast<uint32_t>(n), key});
        next += n + random_.below(6);
        bytes -= n;
    }
    return sges;
}

void Oracle::scatter(Party& p, const std::vector<Sge>& sges, const std::vector<std::byte>& data) {
    const std::byte* from = data.data();
    for (const Sge& s : sges) {
        std::copy_n(from, s.length, p.memory(s.addr));
        from += s.length;
    }
}

std::vector<std::byte> Oracle::gather(Party& p, const std::vector<Sge>& sges) {
    std::vector<std::byte> all;
    for (const Sge& s : sges) all.insert(all.end(), p.memory(s.addr), p.memory(s.addr) + s.length);
    return all;
}

bool Oracle::begins_with(Party& p, const std::vector<Sge>& sges, const std::vector<std::byte>& data) {
    const std::vector<std::byte> all = gather(p, sges);
    return all.size() >= data.size() && std::equal(data.begin(), data.end(), all.begin());
}

void Oracle::place_message(Message& m) {
    const uint32_t local_key = m.defect == Defect::BadLkey ? kNoKey : m.post.local_key ? kDoomedKey : kAllKey;
    m.local_from = from_next_;
    m.local = carve(from_next_, m.bytes, m.post.pieces, local_key);
    m.local_to = from_next_;
    m.remote_from = to_next_;
    if (m.is_atomic()) {
        m.remote = kCounter;
    } else if (!m.is_send()) {
        m.remote = to_next_;
        to_next_ += m.bytes + random_.below(6);
    }
    if (m.takes_receive()) {
        const uint64_t extra = random_.below(9);
        uint64_t room = m.is_send() ? m.bytes + extra : extra;
        if (m.defect == Defect::ShortReceive) room = random_.below(m.bytes);
        const uint32_t key = m.defect == Defect::BadReceiveKey  ? kNoKey
                             : m.is_send() && m.post.remote_key ? kDoomedKey
                                                                : kAllKey;
        m.receive = carve(to_next_, room, static_cast<uint32_t>(random_.between(1, 3)), key);
        receives_.push_back(messages_.size());
    }
    m.remote_to = to_next_;
}

void Oracle::apply_defect(Message& m) {
    m.rkey = m.post.remote_key ? kDoomedKey : kAllKey;
    switch (m.defect) {
        case Defect::BadRkey:
        case Defect::ZeroWithBadKey:
            m.rkey = kNoKey;
            break;
        case Defect::ForeignRkey:
            m.rkey = kForeignKey;
            break;
        case Defect::NoRemoteRight:
            m.rkey = kPoorKey;
            break;
        case Defect::OutOfBounds:
            m.remote = (to_end_ - m.bytes + 8) & ~uint64_t{7};
            break;
        case Defect::Unaligned:
            m.remote += 4;
            break;
        case Defect::RemoteFault:
            to_.set_fault(m.remote_from, m.remote_to);
            break;
        case Defect::LocalFault:
            from_.set_fault(m.local_from, m.local_to);
            break;
        default:
            break;
    }
}

const Message& Oracle::post(const Post& p) {
    Message m;
    m.post = p;
    m.op = static_cast<WrOpcode>(p.op);
    m.defect = static_cast<Defect>(p.defect);
    m.bytes = p.bytes;
    m.imm = static_cast<uint32_t>(random_.next());
    m.data.resize(m.bytes);
    for (auto& b : m.data) b = static_cast<std::byte>(random_.below(255) + 1);  // never 0: 0 is "untouched"
    place_message(m);
    m.first = end();
    m.end = m.first + (m.bytes == 0 || m.is_atomic() ? 1 : (m.bytes + mtu_ - 1) / mtu_);
    if (m.is_atomic()) {
        m.before = counter_;
        m.compare_add = random_.chance(0.6) ? counter_ : random_.next();
        m.swap = random_.next();
        if (m.op == WrOpcode::AtomicFetchAndAdd)
            counter_ += m.compare_add;
        else if (m.compare_add == counter_)
            counter_ = m.swap;
        m.after = counter_;
    } else if (m.is_read()) {
        std::copy(m.data.begin(), m.data.end(), to_.memory(m.remote));
    } else {
        scatter(from_, m.local, m.data);
    }
    apply_defect(m);
    messages_.push_back(std::move(m));
    const Message& kept = messages_.back();
    SendRequest r;
    r.wqe.opcode = kept.op;
    r.wqe.flags = static_cast<uint8_t>(p.flags);
    r.wqe.imm_data = kept.imm;
    r.wqe.remote_addr = kept.remote;
    r.wqe.rkey = kept.rkey;
    r.wqe.compare_add = kept.compare_add;
    r.wqe.swap = kept.swap;
    // The SGEs stay, as the length is their sum; with mapped payload their keys are not looked at.
    r.wqe.mapped = p.mapped && kept.bytes > 0 ? kept.data.data() : nullptr;
    r.sges = kept.local;
    from_.send(r);
    return kept;
}

const std::vector<Sge>* Oracle::next_receive() {
    return receives_posted_ == receives_.size() ? nullptr : &messages_[receives_[receives_posted_]].receive;
}

void Oracle::post_receive() {
    const std::vector<Sge>* sges = next_receive();
    ++receives_posted_;
    to_.receive(*sges);
}

const Message* Oracle::at(uint64_t offset) const {
    const auto m = std::upper_bound(messages_.begin(), messages_.end(), offset,
                                    [](uint64_t o, const Message& x) { return o < x.end; });
    return m == messages_.end() ? nullptr : &*m;
}

uint32_t Oracle::msn_at(uint64_t offset) const {
    const Message* m = at(offset);
    if (m == nullptr) return static_cast<uint32_t>(messages_.size());
    const auto before =
        static_cast<uint32_t>(std::lower_bound(messages_.begin(), messages_.end(), m->first,
                                               [](const Message& x, uint64_t first) { return x.first < first; }) -
                              messages_.begin());
    return before + (m->wants_data() || offset + 1 == m->end ? 1 : 0);
}

bool Oracle::placed(uint64_t offset) const {
    const Message* m = at(offset);
    if (m == nullptr || m->wants_data() || m->bytes == 0) return true;
    const uint64_t from = (offset - m->first) * mtu_;
    const uint64_t n = std::min<uint64_t>(mtu_, m->bytes - from);
    if (m->is_write())
        return std::equal(m->data.begin() + static_cast<long>(from), m->data.begin() + static_cast<long>(from + n),
                          to_.memory(m->remote + from));
    const std::vector<std::byte> all = gather(to_, m->receive);
    return all.size() >= from + n &&
           std::equal(all.begin() + static_cast<long>(from), all.begin() + static_cast<long>(from + n),
                      m->data.begin() + static_cast<long>(from));
}

void Oracle::fail(const std::string& what, size_t message) {
    if (!error_.empty()) return;
    error_ = std::string(side_ == 0 ? "A->B " : "B->A ") + "message " + std::to_string(message) + ": " + what;
}

std::set<WcStatus> Oracle::send_failures(const Message& m) const {
    std::set<WcStatus> s;
    switch (m.defect) {
        case Defect::BadRkey:
        case Defect::ForeignRkey:
        case Defect::OutOfBounds:
        case Defect::NoRemoteRight:
            s.insert(WcStatus::RemAccessErr);
            break;
        case Defect::BadLkey:
        case Defect::LocalFault:
            s.insert(WcStatus::LocProtErr);
            break;
        case Defect::ShortReceive:
        case Defect::Unaligned:
            s.insert(WcStatus::RemInvReqErr);
            break;
        case Defect::BadReceiveKey:
        case Defect::RemoteFault:
            s.insert(WcStatus::RemOpErr);
            break;
        default:
            break;
    }
    if (weather.doomed_here && m.post.local_key) s.insert(WcStatus::LocProtErr);
    if (weather.doomed_there && m.post.remote_key) s.insert(m.is_send() ? WcStatus::RemOpErr : WcStatus::RemAccessErr);
    if (weather.own_error) s.insert(WcStatus::WrFlushErr);
    if (weather.peer_error || weather.retries) s.insert(WcStatus::RetryExcErr);
    if (weather.rnr_retries) s.insert(WcStatus::RnrRetryExcErr);
    return s;
}

void Oracle::check_success(const Message& m) {
    const size_t i = completed_ - 1;
    if (m.must_fail()) fail("succeeded in spite of its defect", i);
    if (m.is_read() && !begins_with(from_, m.local, m.data)) fail("data of the READ", i);
    for (uint64_t o = m.first; o != m.end; ++o)
        if (!placed(o)) fail("completed before its data was in place", i);
    if (m.is_atomic()) {
        uint64_t found = 0;
        const auto bytes = gather(from_, m.local);
        std::memcpy(&found, bytes.data(), sizeof found);
        if (found != m.before) fail("result of the atomic", i);
    }
}

void Oracle::on_send(const Completion& c) {
    if (completed_ == messages_.size()) return fail("completed before it was posted", completed_);
    const size_t i = completed_++;
    const Message& m = messages_[i];
    if (c.wr_id != i) fail("completed out of order", i);
    if (c.opcode != send_opcode(m)) fail("opcode of the completion", i);
    const bool ok = c.status == WcStatus::Success;
    if (c.visible != (!ok || sig_all_ || (m.post.flags & send_flags::kSignaled) != 0)) fail("visibility", i);
    if (m.is_atomic()) ++atomics_done_;
    if (failed_) {
        if (c.status != WcStatus::WrFlushErr) fail("status " + std::to_string(int(c.status)) + " behind a failure", i);
    } else if (ok) {
        check_success(m);
    } else {
        failed_ = true;
        if (send_failures(m).count(c.status) == 0) fail("send status " + std::to_string(int(c.status)), i);
        if (from_.state() != QpState::Err) fail("failed, but the QP is not in ERR", i);
    }
}

std::set<WcStatus> Oracle::receive_failures(const Message& m) const {
    std::set<WcStatus> s;
    if (m.defect == Defect::ShortReceive) s.insert(WcStatus::LocLenErr);
    if (m.defect == Defect::BadReceiveKey || m.defect == Defect::RemoteFault) s.insert(WcStatus::LocProtErr);
    if (weather.doomed_there && m.post.remote_key) s.insert({WcStatus::LocProtErr, WcStatus::RemAccessErr});
    // A WRITE with immediate took its receive before its key was found wrong.
    if (m.must_fail() && m.is_write()) s.insert({WcStatus::RemAccessErr, WcStatus::RemInvReqErr});
    return s;
}

void Oracle::on_receive(const Completion& c) {
    const size_t k = received_++;
    if (k >= receives_posted_) return fail("a receive completed that was not posted", k);
    const size_t i = receives_[k];
    const Message& m = messages_[i];
    if (c.wr_id != k) fail("receive completed out of order", i);
    if (c.status != WcStatus::Success) {
        if (to_.state() != QpState::Err) fail("receive failed, but the QP is not in ERR", i);
        if (c.status != WcStatus::WrFlushErr && (receive_failed_ || receive_failures(m).count(c.status) == 0))
            fail("receive status " + std::to_string(int(c.status)), i);
        receive_failed_ = true;
        return;
    }
    if (receive_failed_) fail("receive succeeded behind a failure", i);
    if (m.must_fail() && m.defect != Defect::BadLkey && m.defect != Defect::LocalFault)
        fail("was received in spite of its defect", i);
    if (c.byte_len != m.bytes) fail("byte_len", i);
    if (c.opcode != (m.is_send() ? WcOpcode::Recv : WcOpcode::RecvRdmaWithImm)) fail("opcode of the receive", i);
    if ((c.wc_flags & wc_flags::kWithImm) != (m.has_imm() ? wc_flags::kWithImm : 0)) fail("flag of the immediate", i);
    if (m.has_imm() && c.imm_data != m.imm) fail("immediate", i);
    if (c.solicited != ((m.post.flags & send_flags::kSolicited) != 0)) fail("solicited event", i);
    for (uint64_t o = m.first; o != m.end; ++o)
        if (!placed(o)) fail("received before its data was in place", i);
}

// Each byte is what it was, or what a message was to put there.
void Oracle::check_untouched(Party& p, uint64_t from, uint64_t to) {
    std::vector<std::byte> was(to - from), may(to - from);
    const auto put = [&](std::vector<std::byte>& image, uint64_t va, const std::byte* data, size_t n) {
        std::copy_n(data, n, image.begin() + static_cast<long>(va - from));
    };
    const auto spread = [&](std::vector<std::byte>& image, const std::vector<Sge>& sges,
                            const std::vector<std::byte>& data) {
        size_t at = 0;
        for (const Sge& s : sges) {
            const size_t n = std::min<size_t>(s.length, data.size() - at);
            put(image, s.addr, data.data() + at, n);
            at += n;
        }
    };
    for (const Message& m : messages_) {
        std::vector<std::byte> result(8);
        std::memcpy(result.data(), &m.before, 8);
        if (&p == &from_) {
            if (!m.wants_data()) spread(was, m.local, m.data);
            spread(may, m.local, m.is_atomic() ? result : m.data);
        } else {
            if (m.is_read()) put(was, m.remote_from, m.data.data(), m.bytes);
            if (m.is_write() || m.is_read()) put(may, m.remote_from, m.data.data(), m.bytes);
            if (m.is_send()) spread(may, m.receive, m.data);
        }
    }
    const std::byte* now = p.memory(from);
    for (size_t i = 0; i < was.size(); ++i)
        if (now[i] != was[i] && now[i] != may[i])
            return fail("a byte was written that belongs to no message, at " + std::to_string(i), 0);
}

void Oracle::check_end() {
    if (completed_ != messages_.size()) fail("never completed", completed_);
    if (to_.state() == QpState::Err ? received_ != receives_posted_ : !failed_ && received_ != receives_.size())
        fail("a receive never completed", received_ < receives_.size() ? receives_[received_] : 0);
    check_untouched(from_, sim::kMemoryBase + kHeader, from_next_);
    const uint64_t half = (to_end_ - sim::kMemoryBase - kHeader) / 2;
    check_untouched(to_, to_end_ - half, to_next_);
    // Atomics: executed once each, in order; those without a completion perhaps not at all.
    uint64_t value = 0;
    std::memcpy(&value, to_.memory(kCounter), sizeof value);
    size_t k = 0;
    bool found = messages_.empty();
    size_t succeeded = 0;
    for (const Message& m : messages_) {
        if (!m.is_atomic()) continue;
        if (k == 0) found = found || (value == m.before && (failed_ || atomics_done_ == 0));
        found = found || (value == m.after && (failed_ || k + 1 == atomics_done_));
        ++k;
        succeeded = k;
    }
    if (succeeded != 0 && !found) fail("the counter of the atomics", completed_);
}

}  // namespace rocemu::model
