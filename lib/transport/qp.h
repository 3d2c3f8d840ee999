// SPDX-License-Identifier: BSD-3-Clause
// Qp: the border of the protocol core. Bytes, results and `now` go in (handle_*), commands come from verbs (post_*,
// modify), and poll_* tells what must be done next. No clock, no thread, no allocation after construction.
// Inside: the machine of the QP's transport (machine.h); this class only passes calls on.
//
// Contract with the caller (lib/engine; tests/sim has another):
//  - After any handle_*, command or elapsed deadline: poll_dma until empty, then poll_transmit, poll_completions,
//    poll_event; ask next_deadline() last.
//  - DMA requests are executed in the order of their tags; results may come later, in the same order.
//  - Packets of poll_transmit leave in order. If a gather fails, that packet and all later ones of the same call are
//    not sent and handle_gather_failed(tag) is called once with the first tag, else handle_transmitted() when all have
//    left; poll_transmit is not called in between.
//  - After handle_packet and handle_dma: poll_kept until empty, handing in each packet it names.
//  - Receive WQEs are offered before each request packet: post_recv while recv_room() > 0 and the RQ has some.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>

#include "base/time.h"
#include "memory/key_table.h"
#include "stats/counters.h"
#include "transport/io.h"
#include "transport/qp_attr.h"
#include "transport/work.h"
#include "wire/parse.h"

namespace rocemu::transport {

struct QpConfig {
    uint32_t qpn = 0;
    QpType type = QpType::Rc;
    QpCaps caps;
    bool sq_sig_all = false;
    memory::PdId pd = 0;
    memory::PdId recv_pd = 0;  // whose lkeys receive WQEs have, with an SRQ; 0: the QP's PD (XRC: see name_srq)
    // Limits of the core for this QP; sizes of its rings, allocated at construction. With these defaults and one SGE
    // per WQE a QP takes about 51 KiB (40 KiB with max_dest_rd_atomic 16); dma_window is 24 KiB of it.
    uint32_t send_window_wqes = 64;     // WQEs fetched from the SQ and not completed yet (<= max_send_wr)
    uint32_t recv_window_wqes = 64;     // likewise for the RQ
    uint32_t window_packets = 128;      // unacknowledged request packets
    uint32_t max_dest_rd_atomic = 128;  // largest responder depth modify may set
    uint32_t max_rd_atomic = 128;
    uint32_t dma_window = 256;  // received packets whose placement may be under way
    // Packets that overtake others are kept up to this distance and time (kept_packets.h); 0: strict.
    uint32_t reorder_packets = 0;  // at most 63
    Duration reorder_time = 50 * kMicrosecond;
    uint8_t max_path_mtu = 5;  // largest path_mtu modify accepts: active_mtu of the port (enum ibv_mtu)
    uint32_t max_frame = 1518;  // raw packets: bytes from the Ethernet header on
    bool has_srq = false;      // receives come from an SRQ: credits are not advertised, LAST_WQE is raised
};

// What a shard lends to all its QPs. Outlives them.
struct Environment {
    memory::KeyTable& keys;  // the core changes memory windows in it
    stats::CounterBlock& counters;
    // Where the state of the QPs lies; at least 64 bytes of alignment are there to be had.
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
    DirectMemory* direct = nullptr;  // nullptr: every placement is a DmaRequest
};

// Names a packet of this QP that the caller keeps.
struct KeptPacket {
    Psn psn;
    bool response;
};

class Qp {
  public:
    Qp(const QpConfig& config, Environment env);
    ~Qp();
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    // --- commands -------------------------------------------------------------------------------------------------
    // 0 or an errno value (EINVAL: transition, attribute or mask not allowed; nothing was changed then).
    // `bad_attr` (may be null) gets the name of the offending attribute, a static string.
    int modify(const QpAttr& attr, uint32_t mask, Instant now, const char** bad_attr = nullptr);
    // What modify would return now.
    [[nodiscard]] int may_modify(const QpAttr& attr, uint32_t mask, const char** bad_attr = nullptr) const;
    void query(QpAttr& attr) const;

    [[nodiscard]] uint32_t send_room() const;  // how many SendWqe may be posted now
    void post_send(const SendWqe& wqe, std::span<const Sge> sges, Instant now);
    // The same without a copy: the caller fills the slot before it asks the QP for anything else.
    [[nodiscard]] SendSlot post_send();
    [[nodiscard]] uint32_t recv_room() const;
    void post_recv(const RecvWqe& wqe, std::span<const Sge> sges);
    [[nodiscard]] RecvSlot post_recv();
    [[nodiscard]] uint32_t recv_free() const;  // posted here and not taken by a message
    // How many receive WQEs wait behind those posted here: the peer is promised them too, and a packet for which there
    // is no room for one is dropped instead of refused.
    void set_receives_waiting(uint32_t count);
    // With an SRQ: one WQE is posted before a packet that may need one, and taken back behind it. True if it was not
    // used.
    bool reclaim_recv();
    // XRC target, before each request packet: the PD of the shared receive queue that the packet names; 0: it names none
    // of the QP's domain. What is lent for the packet is of that queue.
    void name_srq(memory::PdId pd);

    // --- inputs ---------------------------------------------------------------------------------------------------
    // A packet for this QPN that passed parsing, ICRC and address checks. Payload pointers stay valid until the DMA
    // requests it causes have been reported.
    // True (only if `may_keep`): the packet came too early. The caller keeps it, bytes and all, until poll_kept() names
    // it; then it is handed in again, with may_keep = false.
    bool handle_packet(const wire::PacketView& packet, Instant now, bool may_keep = false);
    // Handled now, this packet would be dropped for want of a receive (UC, UD): later it may not be.
    [[nodiscard]] bool must_wait(const wire::PacketView& packet) const;
    void handle_dma(uint64_t tag, DmaStatus status, uint64_t atomic_original, Instant now);
    void handle_gather_failed(uint64_t gather_tag, Instant now);
    void handle_transmitted();
    void handle_timeout(Instant now);
    void handle_cnp(Instant now);

    // --- outputs --------------------------------------------------------------------------------------------------
    // Each appends to the batch and returns true if more is ready than fitted (or than the budget allowed).
    bool poll_dma(DmaBatch& batch);
    // At most `budget_bytes` of payload (at least one packet if any is ready). Without `requests` responses alone.
    bool poll_transmit(Instant now, uint32_t budget_bytes, TxBatch& batch, bool requests = true);
    bool poll_completions(CompletionBatch& batch);
    std::optional<AsyncEvent> poll_event();
    // The next kept packet whose turn has come, or that is not needed any more. A reset forgets all that are kept.
    std::optional<KeptPacket> poll_kept();
    [[nodiscard]] bool kept_ready() const;  // poll_kept has one
    // When handle_timeout or poll_transmit must be called next; kNever if nothing is scheduled.
    [[nodiscard]] Instant next_deadline() const;

    // --- getters --------------------------------------------------------------------------------------------------
    [[nodiscard]] const QpConfig& config() const;
    [[nodiscard]] QpState state() const;
    [[nodiscard]] bool dma_idle() const;  // no DMA request is out: may be destroyed
    [[nodiscard]] const QpAttr& attr() const;

    // Asks for the state that every packet and turn needs to be brought near: a little later it will be used.
    void prefetch() const;
    // The same for the places in its queues that come next; a little after prefetch().
    void prefetch_queues() const;

    // Owner's use: a place for the engine's own per-QP record.
    void* user = nullptr;

  private:
    struct Impl;
    struct Free {
        void operator()(Impl* impl) const;
    };
    std::unique_ptr<Impl, Free> impl_;
};

}  // namespace rocemu::transport
