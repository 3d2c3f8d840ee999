// SPDX-License-Identifier: BSD-3-Clause
// Endpoint: one QP with its application, memory and NIC in virtual time. It does what the engine does: offers WQEs,
// turns TxPackets into frames with ICRC, parses and verifies what arrives, moves payload, collects completions.
// After each step it checks what must hold whatever happens: WQEs complete once and in order.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "memory/key_table.h"
#include "stats/counters.h"
#include "tests/sim/link.h"
#include "tests/sim/memory.h"
#include "transport/qp.h"
#include "wire/build.h"

namespace rocemu::sim {

inline constexpr uint32_t kPd = 7;
inline constexpr uint32_t kKey = 0x105;  // covers the whole memory, all rights
inline constexpr uint32_t kBindable = 0x6601;  // the same for windows, made by the first one
inline constexpr uint32_t kSrqn = 0x321;  // XRC: the shared receive queue of an endpoint

struct PostedSend {
    transport::SendWqe wqe;
    std::vector<Sge> sges;
};
struct PostedReceive {
    transport::RecvWqe wqe;
    std::vector<Sge> sges;
};

// A frame with these headers and payload, padded, with a right ICRC.
FrameBytes make_frame(const wire::HeaderTemplate& headers, const wire::Bth& bth, const wire::ExtHeaders& ext,
                      std::span<const std::byte> payload, uint16_t ip_id = 1);
// Headers of packets from 10.0.0.<address> to the other one (1 or 2).
wire::HeaderTemplate make_headers(uint8_t address);

class Endpoint {
  public:
    Endpoint(const transport::QpConfig& config, uint64_t memory_bytes, uint64_t seed, uint8_t address);

    void connect(const transport::QpAttr& attr);  // RESET to RTS, throws if refused
    void set_state(QpState state);

    // Application: queued here, offered to the QP as it has room.
    uint64_t send(WrOpcode op, std::vector<Sge> sges, uint64_t remote = 0, uint32_t rkey = kKey,
                  uint32_t flags = send_flags::kSignaled);
    void send(PostedSend wr);
    void receive(std::vector<Sge> sges);

    // A window of type 2 over the first 64 KiB, bound to the QP. Its index may have been used and invalidated before.
    void bind_window(uint32_t key);

    // Drops what was queued and recorded and clears the memory: for a new connection on the same QP.
    void forget();

    // XRC: the PD of the shared receive queue kSrqn.
    memory::PdId srq_pd = kPd;

    // NIC.
    void deliver(const FrameBytes& frame, Instant now);
    // Everything that can be done at `now`. Frames go to `out`.
    void pump(Instant now, Link& out);
    void timers(Instant now);
    [[nodiscard]] Instant next_event() const;

    // Called for each completion, in order.
    std::function<void(const transport::Completion&)> on_completion;

    stats::CounterBlock counters;
    memory::KeyTable keys;
    Memory memory;
    transport::Qp qp;
    wire::HeaderTemplate headers;
    std::vector<transport::Completion> sends, receives;  // visible ones
    std::vector<AsyncEvent> events;
    uint64_t sends_done = 0, receives_done = 0;  // unsignaled ones included
    uint64_t icrc_drops = 0, parse_drops = 0;
    std::vector<std::string> violations;
    // At most this many packets and bytes a turn, to exercise resuming.
    uint32_t turn_bytes = 64 * 1024;
    // How many packets the NIC keeps for the QP, if the QP wants it.
    size_t keeps = 64;
    [[nodiscard]] size_t kept() const { return kept_.size(); }
    uint64_t count(stats::Counter c) const { return counters.get(c); }
    uint64_t posted_sends() const { return next_send_; }
    uint64_t posted_receives() const { return next_receive_; }

  private:
    void offer(Instant now);
    void offer_receives();
    void name_srq(const wire::PacketView& packet);
    void run_dma(Instant now, const FrameBytes& frame);
    void replay_kept(Instant now);
    bool transmit(Instant now, Link& out);
    void complete();
    FrameBytes build(const transport::TxPacket& p, const transport::TxBatch& batch);

    std::map<std::pair<bool, uint32_t>, FrameBytes> kept_;  // by direction and PSN
    std::deque<PostedSend> send_backlog_;
    std::deque<PostedReceive> receive_backlog_;
    uint64_t next_send_ = 0, next_receive_ = 0;
    uint16_t ip_id_ = 1;
    transport::TxBatch tx_;
    transport::DmaBatch dma_;
    transport::CompletionBatch completions_;
};

}  // namespace rocemu::sim
