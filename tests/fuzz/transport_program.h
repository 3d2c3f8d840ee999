// SPDX-License-Identifier: BSD-3-Clause
// TransportProgram: a fuzzer's input as a program for one QP of the transport core: packets (recorded ones, or made
// from fields that are near to what is expected), work requests, keys that go, memory that fails or is slow, states,
// time. What must hold whatever the program does: nothing outside the memory is touched (AddressSanitizer), each WQE
// completes once and in order, frames that leave are well formed, and in ERR everything comes back. Seeds are recorded
// conversations in this form: make_program_corpus.py.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "support/wire_frames.h"
#include "tests/sim/endpoint.h"
#include "wire/parse.h"

namespace rocemu::fuzz {

enum class Role : uint8_t { Responder, Completer };

class TransportProgram {
  public:
    TransportProgram(Role role, const uint8_t* data, size_t size)
        : role_(role),
          data_(data),
          size_(size),
          head_(byte()),
          start_(uint32_t{byte()} << 16 | uint32_t{byte()} << 8 | byte()),
          e_(config(), kBytes, 1, 1) {
        out_.latency = 0;
        out_.picoseconds_per_byte = 0;
        connect();
    }

    void run() {
        while (size_ > 0) {
            step();
            // Several packets between two turns of the QP, sometimes.
            if ((flags_ & 0x80) == 0) turn();
            check(e_.violations.empty());
        }
        finish();
    }

  private:
    static constexpr uint64_t kBytes = 1 << 16;
    static constexpr uint32_t kQpn = 0x11, kPeer = 0x22;

    static void check(bool ok) {
        if (!ok) std::abort();
    }
    uint8_t byte() { return size_ == 0 ? 0 : (--size_, *data_++); }
    uint16_t half() {
        const auto high = static_cast<uint16_t>(byte() << 8);
        return static_cast<uint16_t>(high | byte());
    }

    [[nodiscard]] transport::QpConfig config() const {
        transport::QpConfig c;
        c.qpn = kQpn;
        c.pd = sim::kPd;
        c.caps = {64, 64, 4, 4, 0};
        c.send_window_wqes = c.recv_window_wqes = head_ & 1 ? 2 : 16;
        c.window_packets = head_ & 2 ? 4 : 64;
        c.dma_window = head_ & 4 ? 3 : 64;
        c.has_srq = head_ & 8;
        return c;
    }
    void connect() {
        transport::QpAttr a;
        a.port_num = a.ah.port_num = a.ah.is_global = 1;
        a.access_flags = access_flags::kRemoteWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic;
        a.path_mtu = head_ & 0x10 ? 1 : 3;
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

    uint64_t address() { return sim::kMemoryBase + half() + (flags_ & 0x20 ? 0xfff0 : 0); }
    uint32_t rkey() {
        constexpr uint32_t keys[] = {sim::kKey, sim::kKey, sim::kKey, 0x205, 0x106, 0};
        return keys[byte() % 6];
    }

    // A packet from fields: PSN near the expected one, a length that mostly fits.
    void packet() {
        constexpr uint8_t requests[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 19, 20, 22, 23, 28, 29};
        constexpr uint8_t responses[] = {13, 14, 15, 16, 17, 17, 17, 18};
        wire::Bth bth;
        bth.opcode =
            role_ == Role::Responder ? requests[byte() % sizeof requests] : responses[byte() % sizeof responses];
        const auto ahead = static_cast<int8_t>(byte());
        const bool near = flags_ & 1;
        bth.psn = (next_ + static_cast<uint32_t>(near ? ahead / 32 : ahead)) & 0xffffff;
        bth.dest_qp = kQpn;
        bth.ack_req = flags_ & 2;
        bth.solicited = flags_ & 4;
        const auto& op = wire::opcode_info(bth.opcode);
        uint32_t n = 0;
        if (op.has_payload) n = op.ends_message() || (flags_ & 8) ? half() % (mtu() + 2) : mtu();
        wire::ExtHeaders ext;
        ext.reth = {address(), rkey(),
                    op.operation == wire::Operation::Write && op.position == wire::Position::Only
                        ? n
                        : uint32_t{half()} * (flags_ & 0x40 ? 65536 : 1)};
        ext.atomic_eth = {ext.reth.va & ~uint64_t{flags_ & 8 ? 0u : 7u}, ext.reth.rkey, 1, 2};
        ext.aeth = {flags_ & 0x10 ? byte() : uint8_t{0x1f}, byte()};
        const std::vector<std::byte> payload(n, std::byte{flags_});
        send(bth, ext, payload);
        // The next one is expected behind it, if this was the expected one.
        if (bth.psn == next_) next_ = (next_ + 1) & 0xffffff;
    }

    // A frame as it was recorded, with the PSN moved to where this QP is.
    void recorded() {
        const size_t n = std::min<size_t>(half(), size_);
        const test::Frame frame(reinterpret_cast<const std::byte*>(data_),
                                reinterpret_cast<const std::byte*>(data_) + n);
        data_ += n;
        size_ -= n;
        wire::PacketView v;
        if (!wire::parse_frame(frame, v).ok() || v.op->transport != wire::Transport::Rc) return;
        if (v.op->is_response() != (role_ == Role::Completer)) return;
        wire::Bth bth = v.bth;
        bth.dest_qp = kQpn;
        wire::ExtHeaders ext = test::extensions_of(v);
        // Its addresses land in our memory, its key is ours.
        ext.reth.va = sim::kMemoryBase + (ext.reth.va & 0x7ff8);
        ext.atomic_eth.va = sim::kMemoryBase + (ext.atomic_eth.va & 0x7ff8);
        if (ext.reth.rkey != 0) ext.reth.rkey = sim::kKey;
        ext.atomic_eth.rkey = sim::kKey;
        send(bth, ext, v.payload);
        next_ = (bth.psn + 1) & 0xffffff;
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
            list.push_back({address(), static_cast<uint32_t>(half() % 5000), flags_ & 0x10 ? rkey() : sim::kKey});
        return list;
    }
    void post() {
        if (++posted_ > 200) return;
        sim::PostedSend wr;
        wr.wqe.opcode = static_cast<WrOpcode>(byte() % 12);
        wr.wqe.flags = byte() & 7;
        wr.wqe.remote_addr = address();
        wr.wqe.rkey = sim::kKey;
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
            check(wire::parse_frame(*f, v).ok() && v.op->transport == wire::Transport::Rc);
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

    Role role_;
    const uint8_t* data_;
    size_t size_;
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
