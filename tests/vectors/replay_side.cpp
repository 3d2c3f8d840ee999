// SPDX-License-Identifier: BSD-3-Clause
// See replay_side.h.
#include "tests/vectors/replay_side.h"

#include <algorithm>
#include <set>

#include "wire/parse.h"

namespace rocemu::replay {

using sim::kMemoryBase;
using wire::AethKind;
using wire::NakCode;
using wire::Operation;

namespace {

constexpr uint64_t kMemory = 8 << 20;

bool is_nak(const wire::PacketView& v, AethKind kind) {
    return v.op->operation == Operation::Acknowledge && v.aeth().kind() == kind;
}

}  // namespace

Side::Side(const Conversation& c, uint32_t host, const SideOptions& options) : c_(c), host_(host), options_(options) {
    transport::QpConfig config;
    config.qpn = c.qpn[host];
    if (c.transport != wire::Transport::Rc) {
        config.type = c.transport == wire::Transport::Uc ? QpType::Uc : QpType::Ud;
        config.max_path_mtu = c.path_mtu;
    }
    config.pd = sim::kPd;
    config.caps = {256, 256, 4, 4, 0};
    config.send_window_wqes = config.recv_window_wqes = 256;
    out_.latency = 0;
    out_.picoseconds_per_byte = 0;
    e_ = std::make_unique<sim::Endpoint>(config, kMemory, 1, static_cast<uint8_t>(host + 1));
    next_buffer_ = kMemoryBase + kMemory / 2 + options.receive_bytes;
    transport::QpAttr a;
    a.port_num = a.ah.port_num = a.ah.is_global = 1;
    a.access_flags = access_flags::kRemoteWrite | access_flags::kRemoteAtomic |
                     (options.no_read_right ? 0 : access_flags::kRemoteRead);
    a.path_mtu = c.path_mtu;
    a.dest_qpn = c.qpn[1 - host];
    a.sq_psn = c.start[host];
    a.rq_psn = c.start[1 - host];
    if (c.transport == wire::Transport::Ud) a.qkey = c.frames.front().view.deth().qkey;
    a.timeout = 0;  // the recording has the time
    a.retry_cnt = a.rnr_retry = 7;
    a.max_rd_atomic = a.max_dest_rd_atomic = 128;
    for (const Recorded& r : c.frames)
        if (r.host == host && is_nak(r.view, AethKind::RnrNak)) a.min_rnr_timer = r.view.aeth().rnr_timer_code();
    e_->connect(a);
    if (!options.no_memory) offer_memory();
}

// The memory that the recorded host offered: a region for each rkey. What READs and atomics found there that nobody had
// written before is what it held at first.
void Side::offer_memory() {
    struct Range {
        uint64_t from, to, at = 0;
    };
    std::map<uint32_t, Range> ranges;
    const auto cover = [&](uint32_t rkey, uint64_t va, uint64_t n) {
        if (options_.bounds != 0) n = options_.bounds;
        auto [it, fresh] = ranges.try_emplace(rkey, Range{va, va + n});
        it->second.from = std::min(it->second.from, va);
        it->second.to = std::max(it->second.to, va + n);
    };
    const uint32_t peer = 1 - host_;
    for (const PostedMessage& m : c_.messages[peer]) {
        const wire::PacketView& v = m.head->view;
        if (v.op->has(wire::ext::kReth)) cover(v.reth().rkey, v.reth().va, v.reth().length);
        if (v.op->has(wire::ext::kAtomicEth)) cover(v.atomic_eth().rkey, v.atomic_eth().va, 8);
    }
    uint64_t at = kMemoryBase + 64;
    for (auto& [rkey, range] : ranges) {
        range.at = at;
        memory::Region region = *e_->keys.find(sim::kKey);
        region.key = rkey;
        region.iova = range.from;
        region.va = at;
        region.length = range.to - range.from;
        if (at + region.length > kMemoryBase + kMemory / 2) return differ("regions are too large for the replay", 0);
        offered_[rkey] = region;
        at += (region.length + 63) & ~uint64_t{63};
    }
    regions_ = [ranges](uint32_t rkey, uint64_t va) { return ranges.at(rkey).at + (va - ranges.at(rkey).from); };
    if (options_.application_writes) return;
    std::set<uint64_t> known;  // addresses in our memory that were written or whose first value is known
    const auto& here = regions_;
    for (const PostedMessage& m : c_.messages[peer]) {
        const wire::PacketView& v = m.head->view;
        if (v.op->operation == Operation::Write)
            for (uint64_t i = 0; i < m.bytes; ++i) known.insert(here(v.reth().rkey, v.reth().va) + i);
        for (const Recorded& r : c_.frames) {
            const uint64_t o = c_.offset(peer, r.psn());
            if (r.host != host_ || r.request() || o < m.first || o >= m.end) continue;
            if (v.op->operation == Operation::ReadRequest && r.view.op->operation == Operation::ReadResponse)
                for (size_t i = 0; i < r.view.payload.size(); ++i) {
                    const uint64_t va = here(v.reth().rkey, v.reth().va) + (o - m.first) * c_.mtu() + i;
                    if (known.insert(va).second) *e_->memory.at(va) = r.view.payload[i];
                }
            if (r.view.op->operation == Operation::AtomicAcknowledge) {
                const uint64_t va = here(v.atomic_eth().rkey, v.atomic_eth().va);
                const uint64_t original = r.view.atomic_ack_eth().original;
                if (known.insert(va).second) std::memcpy(e_->memory.at(va), &original, 8);
            }
        }
    }
}

void Side::differ(const std::string& what, uint32_t psn) {
    differences_.push_back(what + " at psn " + std::to_string(psn));
}

// Receives as the host had them: plenty, but none where it answered RNR.
void Side::offer_receives(const Recorded& request) {
    const auto after = std::find_if(c_.frames.begin() + (&request - c_.frames.data()), c_.frames.end(),
                                    [&](const Recorded& r) { return r.host == host_ && !r.request(); });
    if (after != c_.frames.end() && is_nak(after->view, AethKind::RnrNak)) return;
    for (; receives_ < e_->receives_done + 16; ++receives_) {
        // All into one buffer: that the bytes arrive is checked elsewhere, here the packets count.
        e_->receive({{kMemoryBase + kMemory / 2, options_.receive_bytes, sim::kKey}});
    }
}

// A real program wrote what its peer was to read, at some time before.
void Side::write_for_read(const Recorded& request) {
    const uint32_t peer = 1 - host_;
    const wire::Reth reth = request.view.reth();
    const uint64_t first = c_.offset(peer, request.psn());
    for (const Recorded& r : c_.frames) {
        const uint64_t index = c_.offset(peer, r.psn()) - first;
        if (r.host != host_ || r.view.op->operation != Operation::ReadResponse || index * c_.mtu() >= reth.length)
            continue;
        std::copy(r.view.payload.begin(), r.view.payload.end(),
                  e_->memory.at(regions_(reth.rkey, reth.va) + index * c_.mtu()));
    }
}

void Side::hear(const Recorded& r) {
    now_ = now_ + 50 * kMicrosecond;
    if (r.request()) offer_receives(r);
    // Just in time: the recorded peer gave keys with the same index to one region after the other.
    const uint32_t rkey = r.view.op->has(wire::ext::kReth)        ? r.view.reth().rkey
                          : r.view.op->has(wire::ext::kAtomicEth) ? r.view.atomic_eth().rkey
                                                                  : 0;
    if (const auto it = offered_.find(rkey); it != offered_.end()) e_->keys.insert(it->second);
    if (options_.application_writes && r.view.op->operation == Operation::ReadRequest) write_for_read(r);
    e_->deliver(r.bytes, now_);
    // An RNR wait is over when the recorded host came back.
    collect();
}

void Side::collect() {
    e_->timers(now_);
    e_->pump(now_, out_);
    while (sim::FrameBytes f = out_.receive(Instant{kNever.ns - 1})) {
        Recorded r;
        r.bytes = f;
        r.host = host_;
        if (!wire::parse_frame(*f, r.view).ok()) return differ("does not parse", 0);
        if (r.request())
            requests_.try_emplace(r.psn(), r);
        else
            responses_.push_back(r);
    }
}

void Side::post_until(uint64_t offset) {
    const auto& list = c_.messages[host_];
    while (posted_ < list.size() && list[posted_].first <= offset) post(list[posted_++]);
}

void Side::post(const PostedMessage& m) {
    const wire::PacketView& head = m.head->view;
    const wire::PacketView& tail = m.tail->view;
    sim::PostedSend wr;
    auto& w = wr.wqe;
    w.flags = static_cast<uint8_t>(send_flags::kSignaled | (tail.bth.solicited ? send_flags::kSolicited : 0));
    const bool imm = tail.op->has_immediate();
    if (imm) w.imm_data = __builtin_bswap32(tail.immdt().data);
    if (head.op->has(wire::ext::kReth)) {
        w.remote_addr = head.reth().va;
        w.rkey = head.reth().rkey;
    }
    if (c_.transport == wire::Transport::Ud) {
        w.ah = 1;
        w.dest_qpn = head.bth.dest_qp;
        w.rkey = head.deth().qkey;
    }
    switch (head.op->operation) {
        case Operation::Send:
            w.opcode = imm ? WrOpcode::SendWithImm : WrOpcode::Send;
            if (tail.op->has_invalidate()) {
                w.opcode = WrOpcode::SendWithInv;
                w.imm_data = tail.ieth().rkey;
            }
            break;
        case Operation::Write:
            w.opcode = imm ? WrOpcode::RdmaWriteWithImm : WrOpcode::RdmaWrite;
            break;
        case Operation::ReadRequest:
            w.opcode = WrOpcode::RdmaRead;
            break;
        case Operation::AtomicWrite:
            w.opcode = WrOpcode::AtomicWrite;
            break;
        default: {
            const wire::AtomicEth eth = head.atomic_eth();
            const bool swap = head.op->operation == Operation::CompareSwap;
            w.opcode = swap ? WrOpcode::AtomicCmpAndSwp : WrOpcode::AtomicFetchAndAdd;
            w.remote_addr = eth.va;
            w.rkey = eth.rkey;
            w.swap = eth.swap_or_add;
            w.compare_add = swap ? eth.compare : eth.swap_or_add;
        }
    }
    if (next_buffer_ + m.bytes > kMemoryBase + kMemory) return differ("too much data for the replay", m.head->psn());
    const Sge sge{next_buffer_, m.bytes, sim::kKey};
    next_buffer_ += (m.bytes + 63) & ~uint64_t{63};
    std::copy(m.payload.begin(), m.payload.end(), e_->memory.at(sge.addr));
    buffers_.push_back(sge);
    wr.sges = {sge};
    e_->send(std::move(wr));
    collect();
}

void Side::same(const wire::PacketView& ours, const wire::PacketView& theirs) {
    const uint32_t psn = theirs.bth.psn;
    if (ours.bth.psn != psn)
        return differ(std::string(ours.op->name) + " has psn " + std::to_string(ours.bth.psn), psn);
    if (ours.bth.opcode != theirs.bth.opcode)
        return differ(std::string(ours.op->name) + " instead of " + theirs.op->name, psn);
    if (ours.bth.dest_qp != theirs.bth.dest_qp) differ("DestQP", psn);
    if (ours.bth.pkey != theirs.bth.pkey) differ("P_Key", psn);
    if (ours.bth.pad_count != theirs.bth.pad_count) differ("pad", psn);
    if (ours.bth.solicited != theirs.bth.solicited) differ("solicited event", psn);
    if (!std::equal(ours.payload.begin(), ours.payload.end(), theirs.payload.begin(), theirs.payload.end()))
        differ("payload", psn);
    const size_t ignored = ours.op->operation == Operation::FetchAdd ? 8 : 0;
    std::vector<std::byte> ext(ours.ext, ours.ext + ours.op->ext_size - ignored);
    // Responses begin with the AETH: of an ACK only the credits may differ.
    if (ours.op->has(wire::ext::kAeth) && ours.aeth().kind() == wire::AethKind::Ack)
        ext[0] |= std::byte{wire::kNoCredits};
    if (!std::equal(ext.begin(), ext.end(), theirs.ext)) differ("extension headers", psn);
}

void Side::compare_request(const Recorded& r) {
    const auto ours = requests_.find(r.psn());
    if (ours == requests_.end()) {
        // With loss a READ may be continued elsewhere.
        if (!c_.loss || r.view.op->operation != Operation::ReadRequest) differ("not sent", r.psn());
        return;
    }
    ++compared_requests;
    if (c_.loss && r.view.op->operation == Operation::ReadRequest &&
        ours->second.view.reth().length != r.view.reth().length)
        return;
    same(ours->second.view, r.view);
    // IBTA 9.2.1: nobody answers on UC and UD, so nothing is asked for.
    if (c_.transport != wire::Transport::Rc && ours->second.view.bth.ack_req) differ("AckReq", r.psn());
}

void Side::compare_responses() {
    std::vector<const Recorded*> theirs;
    for (const Recorded& r : c_.frames)
        if (r.host == host_ && !r.request()) theirs.push_back(&r);
    size_t i = 0;
    for (; i < theirs.size() && i < responses_.size(); ++i) {
        const wire::PacketView &our = responses_[i].view, &their = theirs[i]->view;
        ++compared_responses;
        if (options_.nak != 0 && i + 1 == theirs.size()) {
            if (our.aeth().syndrome != options_.nak || our.bth.psn != their.bth.psn) differ("the NAK", their.bth.psn);
            continue;
        }
        if (refused_invalidate && is_nak(our, AethKind::Nak)) return;
        same(our, their);
    }
    if (theirs.size() != responses_.size())
        differ(std::to_string(responses_.size()) + " responses instead of " + std::to_string(theirs.size()), 0);
}

// Each answer with data that was recorded is one that we gave too, and no ACK lags behind.
void Side::compare_responses_with_loss() {
    const uint32_t peer = 1 - host_;
    std::map<uint32_t, const Recorded*> data;
    uint64_t acked = 0, their_acked = 0;
    std::map<uint32_t, std::set<uint32_t>> msns;
    for (const Recorded& r : responses_) {
        if (r.view.op->operation == Operation::ReadResponse) data[r.psn()] = &r;
        if (is_nak(r.view, AethKind::Nak) || is_nak(r.view, AethKind::RnrNak)) continue;
        acked = std::max(acked, c_.offset(peer, r.psn()) + 1);
        if (r.view.op->has(wire::ext::kAeth)) msns[r.psn()].insert(r.view.aeth().msn);
    }
    for (const auto& [psn, set] : msns)
        if (set.size() != 1) differ("several MSNs", psn);
    for (const Recorded& r : c_.frames) {
        if (r.host != host_ || r.request()) continue;
        ++compared_responses;
        if (is_nak(r.view, AethKind::Nak)) continue;
        their_acked = std::max(their_acked, c_.offset(peer, r.psn()) + 1);
        if (r.view.op->operation == Operation::Acknowledge) continue;
        const auto ours = data.find(r.psn());
        if (ours == data.end()) {
            differ("no answer", r.psn());
        } else if (!std::equal(r.view.payload.begin(), r.view.payload.end(), ours->second->view.payload.begin(),
                               ours->second->view.payload.end())) {
            differ("payload of the answer", r.psn());
        }
    }
    if (acked < their_acked) differ("acknowledged less than the recorded host", 0);
}

void Side::compare_completions() {
    const auto& list = c_.messages[host_];
    // What the peer's NAK must do to us.
    uint64_t refused = ~uint64_t{0};
    WcStatus status = WcStatus::Success;
    uint64_t answered = 0;
    for (const Recorded& r : c_.frames) {
        if (r.host == host_ || r.request()) continue;
        if (is_nak(r.view, AethKind::Nak) && r.view.aeth().nak_code() != NakCode::PsnSequenceError) {
            refused = c_.offset(host_, r.psn());
            status = r.view.aeth().nak_code() == NakCode::InvalidRequest      ? WcStatus::RemInvReqErr
                     : r.view.aeth().nak_code() == NakCode::RemoteAccessError ? WcStatus::RemAccessErr
                                                                              : WcStatus::RemOpErr;
        } else if (!is_nak(r.view, AethKind::Nak) && !is_nak(r.view, AethKind::RnrNak)) {
            answered = std::max(answered, c_.offset(host_, r.psn()) + 1);
        }
    }
    if (c_.transport != wire::Transport::Rc) answered = refused;  // what has left has completed
    for (size_t i = 0; i < list.size(); ++i) {
        const PostedMessage& m = list[i];
        const bool failed = refused >= m.first && refused < m.end;
        if (!failed && m.end > answered && refused > m.end) continue;  // the recording ends before its answer
        if (i >= e_->sends.size()) {
            differ("never completed", m.head->psn());
            continue;
        }
        ++completions;
        const WcStatus expected = failed ? status : m.first > refused ? WcStatus::WrFlushErr : WcStatus::Success;
        if (e_->sends[i].status != expected)
            differ("status " + std::to_string(int(e_->sends[i].status)), m.head->psn());
        if (expected != WcStatus::Success || m.head->view.op->operation != Operation::ReadRequest) continue;
        for (const Recorded& r : c_.frames) {
            const uint64_t o = c_.offset(host_, r.psn());
            if (r.host == host_ || r.view.op->operation != Operation::ReadResponse || o < m.first || o >= m.end)
                continue;
            const std::byte* got = e_->memory.at(buffers_[i].addr + (o - m.first) * c_.mtu());
            if (!std::equal(r.view.payload.begin(), r.view.payload.end(), got)) differ("data of the READ", r.psn());
        }
    }
}

void Side::compare_receives() {
    size_t i = 0;
    for (const PostedMessage& m : c_.messages[1 - host_]) {
        const wire::PacketView& tail = m.tail->view;
        if (!tail.op->consumes_receive()) continue;
        if (i == e_->receives.size()) return differ("not received", tail.bth.psn);
        const auto& wc = e_->receives[i++];
        ++completions;
        const uint32_t header = c_.transport == wire::Transport::Ud ? 40 : 0;
        if (wc.status != WcStatus::Success || wc.byte_len != header + m.bytes) differ("the receive", tail.bth.psn);
        if (tail.op->has_immediate() && wc.imm_data != __builtin_bswap32(tail.immdt().data))
            differ("the immediate of the receive", tail.bth.psn);
    }
    if (i != e_->receives.size()) differ("more received than sent", 0);
}

std::vector<std::string> Side::run() {
    for (const Recorded& r : c_.frames) {
        if (r.host != host_) {
            hear(r);
            refused_invalidate |= r.view.op->has_invalidate() && e_->qp.state() == QpState::Err;
        } else if (r.request()) {
            // The host came back after an RNR wait or a timeout; so do we, as far as ours is over.
            if (refused_invalidate) continue;
            now_ = now_ + 20 * kMillisecond;
            collect();
            post_until(c_.offset(host_, r.psn()));
            compare_request(r);
        }
    }
    if (c_.loss)
        compare_responses_with_loss();
    else
        compare_responses();
    if (!refused_invalidate) compare_completions();
    if (c_.transport != wire::Transport::Rc) compare_receives();
    for (const std::string& v : e_->violations) differences_.push_back(v);
    return differences_;
}

}  // namespace rocemu::replay
