// SPDX-License-Identifier: BSD-3-Clause
// QpContext: what requester, completer and responder of one QP share: configuration, attributes, state, the order of
// payload accesses, pending events. It has no behaviour of its own beyond small helpers.
// Read IBTA volume 1, 10.3 (QP states) and 9.9 (error handling).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "stats/counters.h"
#include "transport/dma_queue.h"
#include "transport/qp.h"

namespace rocemu::transport {

using stats::Counter;

// PSNs inside the core are extended to 64 bits (the low 24 are what travels), so that they have an order and a distance
// without wrap; values from the wire are extended against the expected one. The base keeps them away from zero.
[[nodiscard]] constexpr uint64_t extend_start(uint32_t psn) {
    return (uint64_t{1} << 32) | (psn & Psn::kMask);
}
[[nodiscard]] constexpr Psn psn_of(uint64_t extended) {
    return Psn(static_cast<uint32_t>(extended & Psn::kMask));
}

// Gather tags: 47 bits of extended PSN, 16 bits of connection (a result may come after a reset), a bit for responses.
inline constexpr uint64_t kResponseTag = uint64_t{1} << 63;
inline constexpr unsigned kTagPsnBits = 47;
[[nodiscard]] constexpr uint64_t psn_of_tag(uint64_t tag) {
    return tag & ((uint64_t{1} << kTagPsnBits) - 1);
}

struct QpContext {
    QpContext(Qp* owner, const QpConfig& c, Environment e)
        : qp(owner), config(c), env(e), mtu(first_mtu(c)),
          dma(c.dma_window, std::max({c.caps.max_send_sge, c.caps.max_recv_sge, 1u}), e.memory) {
        recv_pd = config.recv_pd != 0 ? config.recv_pd : config.pd;
        remote_pd = config.pd;
    }

    Qp* qp;
    QpConfig config;
    Environment env;
    QpAttr attr;
    uint32_t mtu;  // bytes; from attr.path_mtu
    DmaQueue dma;
    uint32_t events = 0;  // bit per AsyncEvent
    bool last_receive_owed = false;  // LAST_WQE_REACHED is to be raised when the receives taken have completed
    bool established = false;
    bool has_windows = false;  // memory windows were bound through this QP
    uint16_t generation = 0;  // counts resets
    // PDs of the keys in receive WQEs, and of the rkeys in requests. An XRC target has no PD: they are those of the shared
    // receive queue that the request names (0: none).
    memory::PdId recv_pd = 0, remote_pd = 0;
    // Places in the DMA queue that belong to READ responses on their way: requests leave them free.
    uint32_t responses_expected = 0;

    // IBTA 11.2.5.2: a datagram QP has no path MTU of its own: the port's is the limit. A raw packet is a whole frame.
    [[nodiscard]] static uint32_t first_mtu(const QpConfig& c) {
        if (c.type == QpType::RawPacket) return c.max_frame;
        return c.type == QpType::Ud ? 128u << c.max_path_mtu : 256;
    }

    [[nodiscard]] QpState state() const { return attr.state; }
    // The requester may send and the completer listens. IBTA 10.3.1: RTS, and SQD for what was begun.
    // A14: an XRC target sends no requests, an XRC initiator takes none.
    [[nodiscard]] bool can_request() const {
        return (state() == QpState::Rts || state() == QpState::Sqd) && config.type != QpType::XrcRecv;
    }
    // IBTA 10.3.1: requests are accepted from RTR on; a broken send queue (SQE) does not stop the receive side.
    [[nodiscard]] bool can_respond() const {
        return (state() == QpState::Rtr || state() == QpState::Rts || state() == QpState::Sqd ||
                state() == QpState::Sqe) &&
               config.type != QpType::XrcSend;
    }
    [[nodiscard]] uint64_t gather_tag(uint64_t psn) const { return uint64_t{generation} << kTagPsnBits | psn; }
    [[nodiscard]] bool is_current(uint64_t tag) const {
        return static_cast<uint16_t>((tag & ~kResponseTag) >> kTagPsnBits) == generation;
    }
    // Memory that the peer names by an rkey, in the request at hand.
    [[nodiscard]] memory::KeyStatus resolve_remote(uint32_t rkey, uint64_t addr, uint32_t length, uint32_t need,
                                                   memory::Segment& out) const {
        return env.keys.resolve_remote(rkey, remote_pd, config.qpn, addr, length, need, out);
    }
    void count(Counter c, uint64_t n = 1) const { env.counters.add(c, n); }
    void raise(AsyncEvent e) { events |= 1u << static_cast<unsigned>(e); }
    void enter_error() {
        if (state() == QpState::Err) return;
        attr.state = QpState::Err;
        entered_error();
    }
    void entered_error() {
        last_receive_owed = config.has_srq;
    }
    // The receive queue is empty: what the QP had taken has completed.
    void receives_completed() {
        // IBTA 11.6.3.6, 10.3.1: with an SRQ the application must learn when no receive will be taken any more. It drains
        // the CQ then, and destroys the QP: the completion of the last one comes first.
        if (last_receive_owed) raise(AsyncEvent::QpLastWqeReached);
        last_receive_owed = false;
    }
    // IBTA 11.6.3.1: the first packet in RTR tells that the peer is there, once.
    void communication_established() {
        if (!established) raise(AsyncEvent::CommEst);
        established = true;
    }
};

// What a poll_transmit turn may still send.
struct TxBudget {
    uint32_t bytes;
    bool requests = true;  // false: responses alone
    bool used = false;  // at least one packet went out: only then may `bytes` stop the turn

    [[nodiscard]] bool exhausted(uint32_t next) const { return used && next > bytes; }
    void spend(uint32_t n) {
        used = true;
        bytes -= std::min(bytes, n);
    }
};

// A packet with the fields every packet has; the caller adds extension headers and payload.
inline TxPacket& add_packet(TxBatch& batch, Qp* qp, uint8_t opcode, Psn psn, uint32_t payload_len) {
    TxPacket& p = batch.packets[batch.count++];
    p = TxPacket{};
    p.qp = qp;
    p.opcode = opcode;
    p.psn = psn;
    p.payload_len = payload_len;
    p.pad = static_cast<uint8_t>(-payload_len & 3);
    p.seg_first = batch.segments.used;
    return p;
}

[[nodiscard]] constexpr uint32_t packets_of(uint64_t bytes, uint32_t mtu) {
    return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + mtu - 1) / mtu);
}
// Bytes of packet `index` of a message: one MTU, less in the last.
[[nodiscard]] constexpr uint32_t payload_at(uint64_t length, uint32_t mtu, uint64_t index) {
    const uint64_t offset = index * mtu;
    return static_cast<uint32_t>(std::min<uint64_t>(mtu, length - offset));
}

}  // namespace rocemu::transport
