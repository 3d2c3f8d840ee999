// SPDX-License-Identifier: BSD-3-Clause
// See endpoint.h.
#include "tests/sim/endpoint.h"

#include <numeric>
#include <stdexcept>

#include "wire/icrc.h"
#include "wire/parse.h"

namespace rocemu::sim {

using namespace transport;

namespace {
uint64_t sum_of(const std::vector<Sge>& sges) {
    return std::accumulate(sges.begin(), sges.end(), uint64_t{0},
                           [](uint64_t n, const Sge& s) { return n + s.length; });
}
}  // namespace

wire::HeaderTemplate make_headers(uint8_t address) {
    wire::AddressVector av;
    av.src_gid = wire::Gid::from_ipv4(0x0A000000u + address);
    av.dst_gid = wire::Gid::from_ipv4(0x0A000003u - address);
    av.udp_source_port = 49152;
    return wire::HeaderTemplate(av);
}

FrameBytes make_frame(const wire::HeaderTemplate& headers, const wire::Bth& bth, const wire::ExtHeaders& ext,
                      std::span<const std::byte> payload, uint16_t ip_id) {
    auto frame = std::make_shared<std::vector<std::byte>>(wire::kMaxOverhead + payload.size());
    size_t n = headers.build(frame->data(), bth, ext, payload.size(), ip_id);
    std::copy(payload.begin(), payload.end(), frame->begin() + static_cast<std::ptrdiff_t>(n));
    n += payload.size() + wire::pad_count_of(payload.size());
    frame->resize(n + wire::kIcrcSize);
    const std::span<const std::byte> l3{frame->data() + headers.l3_offset(), n - headers.l3_offset()};
    wire::store_icrc(frame->data() + n, wire::icrc_of_packet(l3, headers.network()));
    return frame;
}

Endpoint::Endpoint(const QpConfig& config, uint64_t memory_bytes, uint64_t seed, uint8_t address)
    : memory(memory_bytes, seed), qp(config, Environment{keys, counters, std::pmr::new_delete_resource(), &memory}), headers(make_headers(address)) {
    memory::Region r;
    r.key = kKey;
    r.pd = kPd;
    r.access = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kRemoteRead |
               access_flags::kRemoteAtomic;
    r.iova = r.va = kMemoryBase;
    r.length = memory_bytes;
    r.space = 1;
    r.mapped = true;
    keys.insert(r);
}

void Endpoint::bind_window(uint32_t key) {
    if (keys.find(kBindable) == nullptr) {
        memory::Region r = *keys.find(kKey);
        r.key = kBindable;
        r.access |= access_flags::kMwBind;
        keys.insert(r);
    }
    if (keys.kind_of(key) == memory::KeyKind::Region) {
        memory::Region w;
        w.key = key;
        w.pd = kPd;
        w.kind = memory::KeyKind::WindowType2;
        keys.insert(w);
    }
    if (!keys.bind({key, kBindable, kPd, qp.config().qpn, access_flags::kRemoteWrite, kMemoryBase, 0x10000}))
        violations.push_back("a window cannot be bound");
}

void Endpoint::connect(const QpAttr& given) {
    using namespace qp_attr_mask;
    QpAttr attr = given;
    const auto step = [&](QpState to, uint32_t mask) {
        attr.state = to;
        const char* bad = "";
        if (qp.modify(attr, mask | kState, Instant{0}, &bad) != 0)
            throw std::runtime_error(std::string("modify: ") + bad);
    };
    const QpType type = qp.config().type;
    const uint32_t responder = type == QpType::Rc || type == QpType::XrcRecv ? kMaxDestRdAtomic | kMinRnrTimer : 0;
    const uint32_t requester =
        type == QpType::Rc || type == QpType::XrcSend ? kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic : 0;
    step(QpState::Init, kPkeyIndex | kPort | (type == QpType::Ud ? kQkey : kAccessFlags));
    if (type == QpType::Ud)
        step(QpState::Rtr, 0);
    else
        step(QpState::Rtr, kAv | kPathMtu | kDestQpn | kRqPsn | responder);
    step(QpState::Rts, kSqPsn | requester | (type == QpType::XrcRecv ? kTimeout : 0));
}

void Endpoint::set_state(QpState state) {
    QpAttr attr;
    attr.state = state;
    if (qp.modify(attr, qp_attr_mask::kState, Instant{0}) != 0) throw std::runtime_error("modify state");
}

uint64_t Endpoint::send(WrOpcode op, std::vector<Sge> sges, uint64_t remote, uint32_t rkey, uint32_t flags) {
    PostedSend wr;
    wr.wqe.opcode = op;
    wr.wqe.flags = static_cast<uint8_t>(flags);
    wr.wqe.remote_addr = remote;
    wr.wqe.rkey = rkey;
    wr.sges = std::move(sges);
    const uint64_t id = next_send_;
    send(std::move(wr));
    return id;
}

void Endpoint::send(PostedSend wr) {
    wr.wqe.wr_id = next_send_;
    wr.wqe.index = static_cast<uint32_t>(next_send_++);
    wr.wqe.num_sge = static_cast<uint8_t>(wr.sges.size());
    wr.wqe.length = static_cast<uint32_t>(sum_of(wr.sges));
    if (qp.config().type == QpType::XrcSend && wr.wqe.srqn == 0) wr.wqe.srqn = kSrqn;
    if (wr.wqe.mapped != nullptr) wr.sges.clear();  // inline: the core sees no SGEs
    send_backlog_.push_back(std::move(wr));
}

void Endpoint::receive(std::vector<Sge> sges) {
    PostedReceive wr;
    wr.wqe.wr_id = next_receive_;
    wr.wqe.index = static_cast<uint32_t>(next_receive_++);
    wr.wqe.num_sge = static_cast<uint8_t>(sges.size());
    wr.wqe.length = sum_of(sges);
    wr.sges = std::move(sges);
    receive_backlog_.push_back(std::move(wr));
}

void Endpoint::forget() {
    kept_.clear();
    send_backlog_.clear();
    receive_backlog_.clear();
    sends.clear();
    receives.clear();
    events.clear();
    next_send_ = next_receive_ = sends_done = receives_done = 0;
    std::memset(memory.at(kMemoryBase), 0, memory.size());
}

void Endpoint::offer_receives() {
    for (; !receive_backlog_.empty() && qp.recv_room() > 0; receive_backlog_.pop_front())
        qp.post_recv(receive_backlog_.front().wqe, receive_backlog_.front().sges);
}

void Endpoint::name_srq(const wire::PacketView& packet) {
    if (qp.config().type == QpType::XrcRecv && packet.op->has(wire::ext::kXrcEth))
        qp.name_srq(packet.xrceth().srqn == kSrqn ? srq_pd : 0);
}

void Endpoint::offer(Instant now) {
    offer_receives();
    for (; !send_backlog_.empty() && qp.send_room() > 0; send_backlog_.pop_front())
        qp.post_send(send_backlog_.front().wqe, send_backlog_.front().sges, now);
}

void Endpoint::deliver(const FrameBytes& frame, Instant now) {
    wire::PacketView view;
    if (!wire::parse_frame(*frame, view).ok()) {
        ++parse_drops;
        return;
    }
    if (!wire::icrc_matches(view)) {
        ++icrc_drops;
        return;
    }
    if (view.bth.dest_qp != qp.config().qpn) {
        violations.emplace_back("a packet with a good ICRC for another QP");
        return;
    }
    offer_receives();
    name_srq(view);
    if (qp.handle_packet(view, now, kept_.size() < keeps))
        kept_[{view.op->is_response(), view.bth.psn}] = frame;
    else
        run_dma(now, frame);
    replay_kept(now);
}

void Endpoint::replay_kept(Instant now) {
    while (const auto next = qp.poll_kept()) {
        const auto it = kept_.find({next->response, next->psn.value()});
        if (it == kept_.end()) {
            violations.emplace_back("asks for a packet that was not kept");
            return;
        }
        const FrameBytes frame = it->second;
        kept_.erase(it);
        wire::PacketView view;
        (void)wire::parse_frame(*frame, view);
        offer_receives();
        name_srq(view);
        if (qp.handle_packet(view, now)) violations.emplace_back("keeps a packet against our will");
        run_dma(now, frame);
    }
}

void Endpoint::run_dma(Instant now, const FrameBytes& frame) {
    bool more = true;
    while (more) {
        dma_.clear();
        more = qp.poll_dma(dma_);
        for (uint32_t i = 0; i < dma_.count; ++i) {
            const DmaRequest& r = dma_.requests[i];
            memory.submit(now, r, {dma_.segments.items.data() + r.seg_first, r.seg_count}, frame);
        }
    }
    uint64_t tag = 0, original = 0;
    DmaStatus status{};
    while (memory.finish(now, tag, status, original)) qp.handle_dma(tag, status, original, now);
    if (memory.overtaken) violations.emplace_back("places what came later before what waits");
}

FrameBytes Endpoint::build(const TxPacket& p, const TxBatch& batch) {
    wire::Bth bth;
    bth.opcode = p.opcode;
    bth.solicited = p.solicited;
    bth.ack_req = p.ack_req;
    bth.psn = p.psn.value();
    bth.dest_qp = p.ah != 0 ? p.dest_qpn : qp.attr().dest_qpn;
    wire::ExtHeaders ext;
    ext.xrceth.srqn = p.srqn;
    ext.deth = {p.qkey, qp.config().qpn};
    ext.reth = {p.remote_addr, p.rkey, p.dma_len};
    ext.atomic_eth = {p.remote_addr, p.rkey, p.swap, p.compare_add};
    ext.aeth = {p.syndrome, p.msn};
    ext.atomic_ack_eth = {p.compare_add};
    ext.immdt = {__builtin_bswap32(p.imm_data)};
    ext.ieth = {p.imm_data};
    if (p.pad != wire::pad_count_of(p.payload_len)) violations.emplace_back("wrong pad count");
    if (p.mapped != nullptr) return make_frame(headers, bth, ext, {p.mapped, p.payload_len}, ip_id_++);
    const std::span<const memory::Segment> segments{batch.segments.items.data() + p.seg_first, p.seg_count};
    uint32_t bytes = 0;
    for (const auto& s : segments) bytes += s.length;
    if (bytes != p.payload_len) violations.emplace_back("segments do not add up to the payload");
    std::vector<std::byte> payload(p.payload_len);
    if (!memory.gather(segments, payload.data())) return nullptr;
    return make_frame(headers, bth, ext, payload, ip_id_++);
}

bool Endpoint::transmit(Instant now, Link& out) {
    tx_.clear();
    const bool more = qp.poll_transmit(now, turn_bytes, tx_);
    for (uint32_t i = 0; i < tx_.count; ++i) {
        FrameBytes frame = build(tx_.packets[i], tx_);
        if (frame == nullptr) {
            qp.handle_gather_failed(tx_.packets[i].gather_tag, now);
            return true;
        }
        wire::PacketView view;
        if (!wire::parse_frame(*frame, view).ok()) violations.emplace_back("we built a frame that does not parse");
        out.send(now, std::move(frame), view);
    }
    if (tx_.count != 0) qp.handle_transmitted();
    return more;
}

void Endpoint::complete() {
    bool more = true;
    while (more) {
        completions_.clear();
        more = qp.poll_completions(completions_);
        for (uint32_t i = 0; i < completions_.count; ++i) {
            const Completion& c = completions_.items[i];
            uint64_t& done = c.is_recv ? receives_done : sends_done;
            if (c.wr_id != done || c.index != static_cast<uint32_t>(done))
                violations.emplace_back("completion out of order");
            ++done;
            if (on_completion) on_completion(c);
            if (c.visible) (c.is_recv ? receives : sends).push_back(c);
        }
    }
    while (auto e = qp.poll_event()) events.push_back(*e);
}

void Endpoint::pump(Instant now, Link& out) {
    bool more = true;
    while (more) {
        offer(now);
        run_dma(now, nullptr);
        replay_kept(now);
        more = transmit(now, out);
        const uint64_t before = sends_done + receives_done;
        complete();
        more |= sends_done + receives_done != before && (!send_backlog_.empty() || !receive_backlog_.empty());
    }
}

void Endpoint::timers(Instant now) {
    if (qp.next_deadline() <= now) qp.handle_timeout(now);
}

Instant Endpoint::next_event() const {
    return std::min(qp.next_deadline(), memory.next_due());
}

}  // namespace rocemu::sim
