// SPDX-License-Identifier: BSD-3-Clause
// TransportProgram: a fuzzer's input as a program for one QP of the transport core: packets (recorded ones, or made
// from fields that are near to what is expected), work requests, keys that go, memory that fails or is slow, states,
// time. What must hold whatever the program does: nothing outside the memory is touched (AddressSanitizer), each WQE
// completes once and in order, frames that leave are well formed, and in ERR everything comes back. Seeds are recorded
// conversations in this form: make_program_corpus.py.
#pragma once

#include "tests/fuzz/made_packet.h"
#include "tests/sim/endpoint.h"

namespace rocemu::fuzz {

enum class Role : uint8_t { Responder, Completer, Unacked };

class TransportProgram {
  public:
    TransportProgram(Role role, const uint8_t* data, size_t size)
        : role_(role),
          in_{data, size},
          head_(byte()),
          start_(uint32_t{byte()} << 16 | uint32_t{byte()} << 8 | byte()),
          e_(config(), kBytes, 1, 1) {
        out_.latency = 0;
        out_.picoseconds_per_byte = 0;
        connect();
    }

    void run() {
        while (in_.size > 0) {
            step();
            // Several packets between two turns of the QP, sometimes.
            if ((flags_ & 0x80) == 0) turn();
            check(e_.violations.empty());
        }
        finish();
    }

  private:
    static constexpr uint64_t kBytes = 1 << 16;
    static constexpr uint32_t kQpn = 0x11, kPeer = 0x22, kQkey = 0x11111111;

    uint8_t byte() { return in_.byte(); }
    uint16_t half() { return in_.half(); }

    [[nodiscard]] transport::QpConfig config() const {
        transport::QpConfig c;
        c.qpn = kQpn;
        c.pd = sim::kPd;
        c.caps = {64, 64, 4, 4, 0};
        c.send_window_wqes = c.recv_window_wqes = head_ & 1 ? 2 : 16;
        c.window_packets = head_ & 2 ? 4 : 64;
        c.dma_window = head_ & 4 ? 3 : 64;
        c.has_srq = head_ & 8;
        if (role_ == Role::Unacked) {
            c.type = head_ & 0x80 ? QpType::Ud : QpType::Uc;
            c.max_path_mtu = mtu_code();
        } else if (head_ & 0x80) {
            c.reorder_packets = head_ & 2 ? 4 : 32;
        }
        return c;
    }
    void connect() {
        transport::QpAttr a;
        a.port_num = a.ah.port_num = a.ah.is_global = 1;
        a.access_flags = access_flags::kRemoteWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic;
        a.path_mtu = mtu_code();
        a.qkey = kQkey;
        a.dest_qpn = kPeer;
        a.sq_psn = a.rq_psn = next_ = start_;
        a.timeout = 8;
        a.retry_cnt = a.rnr_retry = head_ & 0x20 ? 7 : 1;
        a.max_rd_atomic = a.max_dest_rd_atomic = head_ & 0x40 ? 2 : 16;
        a.min_rnr_timer = 1;
        e_.connect(a);
    }

    void step() {
        const uint8_t kind = byte() & 15;
        flags_ = byte();
        switch (kind) {
            case 0:
            case 1:
            case 2:
            case 3:
            case 4:
            case 5:
                return packet();
            case 6:
            case 7:
                return recorded();
            case 8:
            case 9:
                return post();
            case 10:
                return receive();
            case 11:
                now_ = now_ + (Duration{1} << (byte() % 32));
                return e_.timers(now_);
            case 12:
                return key();
            case 13:
                e_.memory.slowest = byte() * 100;
                return;
            case 14:
                e_.memory.fault_from = sim::kMemoryBase + half();
                e_.memory.fault_to = e_.memory.fault_from + byte();
                return;
            default:
                return state();
        }
    }

    [[nodiscard]] Aim aim() const {
        return {kQpn, mtu(), next_, kQkey, kPeer, sim::kMemoryBase,
                {sim::kKey, sim::kKey, sim::kKey, 0x205, 0x106, 0}};
    }
    uint64_t address() { return MadePacket::address(in_, flags_, aim()); }

    void packet() {
        const uint8_t opcode =
            role_ == Role::Completer ? kResponses[byte() % kResponses.size()] : request_opcode(in_, transport());
        const auto p = MadePacket::of_fields(in_, opcode, flags_, aim());
        send(p.bth, p.ext, p.payload);
        // The next one is expected behind it, if this was the expected one.
        if (p.bth.psn == next_) next_ = (next_ + 1) & 0xffffff;
    }

    void recorded() {
        const auto p = MadePacket::of_recording(in_, transport(), aim());
        if (!p || wire::opcode_info(p->bth.opcode).is_response() != (role_ == Role::Completer)) return;
        send(p->bth, p->ext, p->payload);
        next_ = (p->bth.psn + 1) & 0xffffff;
    }

    void send(const wire::Bth& bth, const wire::ExtHeaders& ext, std::span<const std::byte> payload) {
        wire::AddressVector av;
        av.src_gid = wire::Gid::from_ipv4(0x0A000002u);
        av.dst_gid = wire::Gid::from_ipv4(0x0A000001u);
        e_.deliver(std::make_shared<std::vector<std::byte>>(test::make_frame(av, bth, ext, payload)), now_);
    }

    std::vector<Sge> sges() {
        std::vector<Sge> list;
        const int n = flags_ & 3;
        for (int i = 0; i <= n; ++i)
            list.push_back({address(), static_cast<uint32_t>(half() % 5000), flags_ & 0x10 ? MadePacket::rkey(in_, aim()) : sim::kKey});
        return list;
    }
    void post() {
        if (++posted_ > 200) return;
        sim::PostedSend wr;
        wr.wqe.opcode = static_cast<WrOpcode>(byte() % 12);
        wr.wqe.flags = byte() & 7;
        wr.wqe.remote_addr = address();
        wr.wqe.rkey = sim::kKey;
        if (transport() == wire::Transport::Ud) {
            wr.wqe.ah = 1;
            wr.wqe.dest_qpn = kPeer;
            wr.wqe.rkey = kQkey;
        }
        wr.sges = sges();
        if (wr.wqe.opcode == WrOpcode::AtomicFetchAndAdd || wr.wqe.opcode == WrOpcode::AtomicCmpAndSwp)
            wr.sges = {{sim::kMemoryBase + 64, flags_ & 8 ? 7u : 8u, sim::kKey}};
        e_.send(std::move(wr));
    }
    void receive() {
        if (++posted_ > 200) return;
        e_.receive(sges());
    }
    void key() {
        memory::Region r;
        r.key = flags_ & 1 ? sim::kKey : 0x205;
        if (flags_ & 2) {
            e_.keys.remove(r.key);
            return;
        }
        r.pd = sim::kPd;
        r.access = byte() & 15;
        r.iova = r.va = sim::kMemoryBase + half() / 2;
        r.length = half() / 2;
        r.space = 1;
        e_.keys.insert(r);
    }
    void state() {
        const QpState s = e_.qp.state();
        switch (flags_ & 7) {
            case 0:
                if (s == QpState::Rts) e_.set_state(QpState::Sqd);
                return;
            case 1:
                if (s == QpState::Sqd) e_.set_state(QpState::Rts);
                return;
            case 2:
                if (s != QpState::Reset) e_.set_state(QpState::Err);
                return;
            default:
                return;
        }
    }

    // All that the QP wants to do now.
    void turn() {
        e_.pump(now_, out_);
        while (sim::FrameBytes f = out_.receive(Instant{kNever.ns - 1})) {
            wire::PacketView v;
            check(wire::parse_frame(*f, v).ok() && v.op->transport == transport());
            check(v.bth.dest_qp == kPeer && v.payload.size() <= mtu());
            // A requester's next response is expected where its first request was.
            if (role_ == Role::Completer && v.op->is_request() && !sent_) {
                sent_ = true;
                next_ = v.bth.psn;
            }
        }
        check(e_.sends_done <= e_.posted_sends() && e_.receives_done <= e_.posted_receives());
    }

    // Time passes, then ERR: every WQE must come back.
    void finish() {
        e_.memory.slowest = 0;
        for (int i = 0; i < 2000 && e_.next_event() != kNever; ++i) {
            now_ = std::max(now_, e_.next_event());
            e_.timers(now_);
            turn();
        }
        if (e_.qp.state() != QpState::Err) e_.set_state(QpState::Err);
        turn();
        check(e_.violations.empty());
        check(e_.qp.dma_idle());
        check(e_.sends_done == e_.posted_sends());
        check(e_.receives_done == e_.posted_receives());
    }

    [[nodiscard]] uint32_t mtu() const { return head_ & 0x10 ? 256 : 1024; }
    [[nodiscard]] uint8_t mtu_code() const { return head_ & 0x10 ? 1 : 3; }
    [[nodiscard]] wire::Transport transport() const {
        if (role_ != Role::Unacked) return wire::Transport::Rc;
        return head_ & 0x80 ? wire::Transport::Ud : wire::Transport::Uc;
    }

    Role role_;
    Input in_;
    uint8_t head_;
    uint32_t start_;
    sim::Endpoint e_;
    sim::Link out_{1};
    Instant now_{1000};
    uint32_t next_ = 0;  // PSN that is probably expected
    uint32_t posted_ = 0;
    uint8_t flags_ = 0;
    bool sent_ = false;
};

}  // namespace rocemu::fuzz
