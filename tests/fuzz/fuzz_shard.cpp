// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target for all that lies between the wire and the core: one shard with RC, UC and datagram QPs, with receive
// queues of their own and a shared one, members of groups, with early packets kept; slow memory. The input is a
// program: frames (made from fields, recorded, damaged, any bytes, MADs), receives, sends, time, states, membership,
// destruction. Each WQE of a queue completes once, every frame that leaves parses, no frame buffer is lost, and honest
// neighbours on the shard still work. Seeds: make_program_corpus.py.
#include <array>
#include <memory>
#include <optional>

#include "engine/gsi.h"
#include "engine/groups.h"
#include "tests/fuzz/honest_pair.h"
#include "tests/fuzz/made_packet.h"

using namespace rocemu;
using namespace rocemu::test;
using namespace rocemu::fuzz;

namespace {

// Looks at what is sent.
class StrictPort final : public engine::Port {
  public:
    explicit StrictPort(engine::Port& real) : real_(real) {}
    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override { return real_.rx_burst(now, frames); }
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override {
        for (const auto& f : frames) {
            wire::PacketView v;
            const auto parsed = wire::parse_frame({f.data, f.length}, v);
            check(parsed.kind != wire::ParseResult::Kind::Drop && (!parsed.ok() || wire::icrc_matches(v)));
        }
        return real_.tx_burst(now, frames);
    }
    [[nodiscard]] Instant next_deadline() const override { return real_.next_deadline(); }
    [[nodiscard]] engine::PortInfo info() const override { return real_.info(); }

  private:
    engine::Port& real_;
};

constexpr uint32_t kTarget = 2;  // the NIC that is shot at; the fuzzer sends from NIC 0
constexpr uint64_t kBytes = 1 << 16;
constexpr uint32_t kWrs = 16;
const wire::Gid kGroup = wire::Gid::from_ipv4(0xef010203);

struct World {
    World() {
        honest.w.wrap_port = [this](engine::Port& real) -> engine::Port& { return port.emplace(real); };
        honest.w.add_nics(kTarget, 1);
        for (const auto path : {payload::Path::ProcessVm, payload::Path::Agent}) {
            AppSession& s = honest.w.add_session(path);
            keys.push_back(honest.w.add_mr(s, memory.data(), kBytes));
            sessions.push_back(&s);
        }
    }
    std::optional<StrictPort> port;
    std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
    HonestPair honest;
    std::vector<AppSession*> sessions;
    std::vector<uint32_t> keys;
};

class Run {
  public:
    Run(World& world, Input in)
        : x_(world),
          w_(world.honest.w),
          in_(in),
          head_(in_.byte()),
          session_(*world.sessions[head_ & 1]),
          key_(world.keys[head_ & 1]),
          cq_(w_.add_cq(session_, 1024)),
          srq_(w_.add_srq(session_, 2 * kWrs)) {
        w_.reorder_packets = std::array{0u, 4u, 32u, 63u}[head_ >> 1 & 3];
        w_.blocks_own_groups = head_ & 8;
        const uint8_t which = in_.byte();
        for (uint32_t i = 0; i < kQps; ++i) {
            if ((which >> i & 1) == 0) continue;
            w_.qp_type = std::array{QpType::Rc, QpType::Uc, QpType::Ud}[i % 3];
            targets_[i].q = &w_.add_qp(session_, cq_, cq_, kTarget, {kWrs, kWrs, 4, 4, 64}, i / 3 ? srq_.id : 0);
            start(targets_[i]);
        }
        w_.qp_type = QpType::Rc;
        address_ = w_.add_ah(session_, EngineWorld::route(kTarget, head_ & 16 ? kTarget : 0), kTarget);
        group_ = w_.add_ah(session_, EngineWorld::route(kTarget, kGroup), kTarget);
    }
    void run() {
        while (in_.size > 0) {
            const uint8_t kind = in_.byte();
            step(kind);
            if ((kind & 0x80) == 0) w_.turns(1);
            drain();
        }
        w_.agents_run = true;
        for (Target& t : targets_)
            if (t.q != nullptr) destroy(t);
        w_.turns(60);
        while (!w_.shard.payload_passed(session_.id, fence_)) w_.turns(1);
        check(w_.pool.out() <= 3 * 128);  // the stock of the caches
        w_.shard.destroy_srq(srq_.id);
        std::array<engine::ReceivedMad, 64> mads;
        while (w_.shard.poll_mads(mads) != 0) {
        }
        std::array<engine::ShardEvent, 64> events;
        while (w_.shard.poll_events(events) != 0) {
        }
    }

  private:
    static constexpr uint32_t kQps = 6;
    struct Target {
        AppQp* q = nullptr;
        uint32_t expected = 0;
        uint32_t sends = 0, receives = 0;  // completed
        bool member = false;
    };

    void start(Target& t) {
        t.expected = kFirstPsn;
        t.sends = t.receives = 0;
        check((t.q->type == QpType::Ud ? w_.activate(*t.q)
                                       : w_.connect_one(*t.q, x_.honest.a, head_ & 32 ? 1 : 3, 8, kFirstPsn)) == 0);
    }
    // Everything comes back in ERR; an SRQ's own stays in it.
    void end(Target& t) {
        transport::QpAttr attr;
        attr.state = QpState::Err;
        (void)w_.modify(*t.q, attr, qp_attr_mask::kState);
        const bool own = (&t - targets_.data()) / 3 == 0;
        check(w_.run_until([&] {
            drain();
            return t.sends == t.q->sq_producer && (!own || t.receives == t.q->rq_producer);
        }));
    }
    void destroy(Target& t) {
        end(t);
        check(w_.run_until([&] { return w_.shard.destroy_qp(t.q->qpn); }));
        t.q = nullptr;
    }
    void reset(Target& t) {
        transport::QpAttr attr;
        attr.state = QpState::Reset;
        check(w_.run_until([&] { return w_.modify(*t.q, attr, qp_attr_mask::kState) == 0; }));
        drain();
        for (auto* h : {&t.q->sq_header(), &t.q->rq_header()}) {
            h->producer.store(0);
            h->consumer.store(0);
        }
        t.q->sq_producer = t.q->rq_producer = 0;
        start(t);
    }

    void step(uint8_t kind) {
        flags_ = in_.byte();
        Target& t = targets_[in_.byte() % kQps];
        switch (kind & 15) {
            case 0:
            case 1:
            case 2:
            case 3:
            case 4:
                return packet(t);
            case 5:
                return recorded(t);
            case 6:
                return damaged();
            case 7:
                return frame(in_.bytes(in_.half()));
            case 8:
            case 9:
                return receive(t);
            case 10:
                return send(t);
            case 11:
                return w_.turns(1 + in_.byte() % 8, Duration{64} << (flags_ % 24));
            case 12:
                return membership(t);
            case 13:
                return state(t);
            case 14:
                w_.agents_run = flags_ & 1;
                return;
            default:
                return mad();
        }
    }

    [[nodiscard]] Aim aim(const Target& t) const {
        return {t.q->qpn,         head_ & 32 ? 256u : 1024u, t.expected, EngineWorld::kUdQkey, kPeer,
                reinterpret_cast<uintptr_t>(x_.memory.data()), {key_, key_, key_, x_.honest.key, key_ + 1, 0}};
    }
    static wire::Transport transport_of(const Target& t) {
        return t.q->type == QpType::Rc ? wire::Transport::Rc
               : t.q->type == QpType::Uc ? wire::Transport::Uc
                                         : wire::Transport::Ud;
    }
    void packet(Target& t) {
        if (t.q == nullptr) return;
        const bool response = flags_ & 0x80 && t.q->type == QpType::Rc;
        const uint8_t opcode =
            response ? kResponses[in_.byte() % kResponses.size()] : request_opcode(in_, transport_of(t));
        Aim a = aim(t);
        if (response) a.expected = kFirstPsn + in_.byte() % 32;
        put(MadePacket::of_fields(in_, opcode, flags_, a));
        if (!response && last_.psn == t.expected) t.expected = (t.expected + 1) & 0xffffff;
    }
    void recorded(Target& t) {
        if (t.q == nullptr) return;
        const auto p = MadePacket::of_recording(in_, transport_of(t), aim(t));
        if (!p) return;
        auto moved = *p;
        moved.bth.psn = t.expected;
        put(moved);
        t.expected = (t.expected + 1) & 0xffffff;
    }
    void put(MadePacket p) {
        wire::AddressVector to = EngineWorld::route(0, kTarget);
        if (wire::opcode_info(p.bth.opcode).transport == wire::Transport::Ud && flags_ & 8) {
            to = EngineWorld::route(0, kGroup);
            p.bth.dest_qp = engine::kMulticastQpn;
        }
        last_ = p.bth;
        frame(last_frame_ = make_frame(to, p.bth, p.ext, p.payload));
    }
    // The last frame once more, with other bytes and, mostly, a right ICRC.
    void damaged() {
        Frame f = last_frame_;
        for (int n = flags_ & 7; n >= 0 && !f.empty(); --n) f[in_.byte() % f.size()] ^= std::byte{in_.byte()};
        wire::PacketView v;
        if (flags_ & 0xf0 && wire::parse_frame(f, v).ok()) {
            const size_t end = static_cast<size_t>(v.l3.data() - f.data()) + v.l3.size();
            wire::store_icrc(&f[end], wire::icrc_of_packet(v.l3, v.network));
        }
        frame(f);
    }
    void mad() {
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
        bth.dest_qp = engine::kGsiQpn;
        wire::ExtHeaders ext;
        ext.deth = {flags_ & 1 ? in_.word() : engine::kGsiQkey, 1};
        frame(make_frame(EngineWorld::route(0, kTarget), bth, ext, in_.bytes(flags_ & 2 ? in_.byte() : 256)));
    }
    void frame(std::span<const std::byte> bytes) {
        if (bytes.size() >= 14 && bytes.size() <= 4200) (void)w_.shard.send_raw(0, bytes);
    }

    abi::WqeSge buffer() {
        const uint32_t key = flags_ & 0x40 ? key_ + 1 : key_;
        return sge(&x_.memory[in_.half() / 2], static_cast<uint32_t>(in_.half() % 5000), key);
    }
    void receive(Target& t) {
        const auto s = buffer();
        if (t.q == nullptr) return;
        if ((&t - targets_.data()) / 3 != 0) {
            if (srq_.producer - srq_.consumed() < srq_.entries) srq_.post(1, s);
        } else if (t.q->rq_producer - t.receives < kWrs) {
            t.q->post_recv(1, {s});
        }
    }
    void send(Target& t) {
        abi::SqWqe wqe = make_wqe(static_cast<WrOpcode>(in_.byte() % 12), 0, send_flags::kSignaled | (flags_ & 5));
        const auto s = buffer();
        if (t.q == nullptr || t.q->sq_producer - t.sends >= kWrs) return;
        wqe.rkey = key_;
        wqe.remote_addr = reinterpret_cast<uintptr_t>(x_.memory.data()) + in_.half();
        if (t.q->type == QpType::Ud) {
            const bool to_group = flags_ & 0x10;
            wqe.rkey = EngineWorld::kUdQkey;
            // Its own NIC, or the other one; a group that it may be in.
            const uint32_t qpn = to_group ? engine::kMulticastQpn : t.q->qpn + in_.byte() % 8;
            wqe.remote_addr = uint64_t{to_group ? group_ : address_} << 32 | qpn;
        }
        t.q->post_send(wqe, {s});
    }
    void membership(Target& t) {
        if (t.q == nullptr || t.q->type != QpType::Ud || t.member == ((flags_ & 1) != 0)) return;
        t.member = !t.member;
        if (t.member)
            check(w_.shard.attach_group(t.q->qpn, kGroup));
        else
            w_.shard.detach_group(t.q->qpn, kGroup);
    }
    void state(Target& t) {
        if (t.q == nullptr) return;
        switch (flags_ & 7) {
            case 0:
                w_.agents_run = true;  // without its agent what the QP has out is not over for seconds
                return destroy(t);
            case 1:
                w_.agents_run = true;
                return reset(t);
            case 2:
                w_.agents_run = true;
                return end(t);
            case 3:
                return set(t, QpState::Sqd);
            case 4:
                return set(t, QpState::Rts);
            default:
                return;
        }
    }
    void set(Target& t, QpState state) {
        transport::QpAttr attr;
        attr.state = state;
        (void)w_.modify(*t.q, attr, qp_attr_mask::kState);
    }
    void drain() {
        for (abi::Cqe e; cq_.poll(e);)
            for (Target& t : targets_)
                if (t.q != nullptr && t.q->qpn == e.qpn) ++(e.is_recv ? t.receives : t.sends);
        for (Target& t : targets_)
            check(t.q == nullptr || (t.sends <= t.q->sq_producer &&
                                     (&t - targets_.data() >= 3 || t.receives <= t.q->rq_producer)));
    }

    static constexpr uint32_t kFirstPsn = 0xfffff0, kPeer = 0x50;
    World& x_;
    EngineWorld& w_;
    Input in_;
    uint8_t head_;
    AppSession& session_;
    uint32_t key_;
    AppCq& cq_;
    AppSrq& srq_;
    std::array<Target, kQps> targets_;
    uint32_t address_ = 0, group_ = 0;
    uint64_t fence_ = 0;
    uint8_t flags_ = 0;
    wire::Bth last_;
    Frame last_frame_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static std::unique_ptr<World> world;
    static int runs = 0;
    if (size < 4) return 0;
    if (runs++ % 100 == 0) {
        if (world) world->honest.works();
        world.reset();
        world = std::make_unique<World>();
    }
    Run(*world, {data, size}).run();
    return 0;
}
