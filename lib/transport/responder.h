// SPDX-License-Identifier: BSD-3-Clause
// Responder: takes request packets through a chain of named checks in the order of the specification, and owes the peer
// responses, ACKs and NAKs for them. Read IBTA volume 1, 9.7.4 (request validation), 9.7.5 (responses),
// 9.9.3 (responder errors), 9.7.7.1 (MSN).
//
//   responder.cpp            the chain up to the key
//   responder_execute.cpp    execute, reply, complete; results of placements
//   responder_duplicates.cpp requests seen before
//   responder_transmit.cpp   what leaves: READ and atomic responses in order, then a NAK or an ACK
//
// A request that is refused for good halts the responder; the QP goes to ERR when the NAK leaves, so that what is owed
// for earlier requests leaves first.
#pragma once

#include <array>

#include "transport/ack_policy.h"
#include "transport/inbound_message.h"
#include "transport/kept_packets.h"
#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "transport/responder_resources.h"
#include "wire/packet_view.h"

namespace rocemu::transport {

// One request packet on its way through the chain.
struct Request {
    Request(const wire::PacketView& p, Instant n, bool keep) : packet(p), op(*p.op), now(n), may_keep(keep) {
        if (!op.has_immediate()) return;
        wc_flags = rocemu::wc_flags::kWithImm;
        wc_data = __builtin_bswap32(p.immdt().data);  // verbs hands it on in network order
    }

    const wire::PacketView& packet;
    const wire::OpcodeInfo& op;
    const Instant now;
    const bool may_keep;
    bool kept = false;  // it came too early
    uint64_t psn = 0;   // extended
    // Found by the checks, used by execute.
    bool receive_taken = false;
    uint64_t receive = 0;   // receive WQE this packet fills or completes, if taken
    uint32_t wc_flags = 0;  // of the receive's WC, and the four bytes that go with them
    uint32_t wc_data = 0;
    uint32_t segment_count = 0;
    std::array<memory::Segment, kMaxSge> segments;  // the first segment_count; not cleared on purpose

    [[nodiscard]] uint32_t payload() const { return static_cast<uint32_t>(packet.payload.size()); }
};

class Responder {
  public:
    Responder(QpContext& ctx, ReceiveQueue& queue) : ctx_(ctx), rq_(queue), resources_(ctx.config.max_dest_rd_atomic, ctx.env.memory) {}

    void start();  // entering RTR: expects attr.rq_psn
    void reset();
    // Precondition: the QP's state accepts requests. True: the packet came too early and is kept.
    bool handle(const wire::PacketView& packet, Instant now, bool may_keep);
    // A gap has been open long enough.
    void handle_timeout(Instant now);
    [[nodiscard]] Instant next_deadline() const { return ctx_.can_respond() && !halted_ ? nak_due_ : kNever; }
    // A kept packet may come back: it is the next one, behind, or of no use any more.
    [[nodiscard]] bool kept_ready() const {
        return kept_.any() && (kept_.lowest() <= expected_ || gap_ == Gap::Rnr || halted_ || !ctx_.can_respond());
    }
    uint64_t take_kept() { return kept_.take_lowest(); }
    // A placement or atomic of a request has ended.
    void executed(const DmaOp& op, DmaStatus status, uint64_t original);
    // What was placed last may be acknowledged up to here (noted on the last operation, whoever owned it).
    void placed(uint64_t psn, uint32_t msn);
    bool poll_transmit(TxBudget& budget, TxBatch& batch);
    // A request was refused for good: the QP goes to ERR when the NAK has left.
    [[nodiscard]] bool halted() const { return halted_; }
    // The payload of READ response `psn` (extended) could not be read.
    void gather_failed(uint64_t psn);

  private:
    // What an error does to the receive side.
    struct Blame {
        bool has_receive = false;
        uint64_t receive = 0;
        WcStatus status = WcStatus::Success;
        AsyncEvent event = AsyncEvent::QpReqErr;  // raised if no receive carries the error
    };
    struct PendingNak {
        bool set = false;
        bool fatal = false;
        bool raises = false;  // `event`, when it leaves
        AsyncEvent event = AsyncEvent::QpReqErr;
        uint8_t syndrome = 0;
        uint32_t msn = 0;
        uint64_t psn = 0;
        uint64_t mark = 0;  // leaves when this much is placed
    };
    enum class Gap : uint8_t { None, Sequence, Rnr };

    // The chain: false ends it.
    bool check_psn(Request& r);
    bool check_opcode_sequence(const Request& r);
    bool check_srq(const Request& r);
    bool check_opcode(const Request& r);
    bool check_resources(Request& r);
    bool check_length(const Request& r);
    bool check_key(Request& r);
    void execute(const Request& r);
    void reply(const Request& r);
    void complete(const Request& r);

    void out_of_sequence(Request& r);
    void sequence_nak();
    void duplicate(const Request& r);
    void duplicate_message(uint64_t psn);
    void duplicate_read(const Request& r);
    void duplicate_atomic(const Request& r, ResourceKind kind);

    bool take_receive(Request& r);
    bool check_send_key(Request& r);
    bool check_write_key(Request& r);
    bool check_read_key(const Request& r);
    bool check_atomic_key(Request& r, uint64_t va, uint32_t rkey, uint32_t right);
    void execute_place(const Request& r, bool takes_receive);
    void execute_read(const Request& r);
    void execute_atomic(const Request& r);
    void execute_atomic_write(const Request& r);
    Resource& add_resource(const Request& r, ResourceKind kind, uint32_t packets);
    [[nodiscard]] Blame blame_for(const Request& r, WcStatus status, AsyncEvent event) const;

    // Refuses for good: NAK at `psn`, then ERR. `mark`: what must be placed before the NAK leaves. Returns false.
    bool refuse(uint64_t psn, wire::NakCode code, const Blame& blame, uint64_t mark);
    bool refuse(const Request& r, wire::NakCode code, WcStatus status, AsyncEvent event = AsyncEvent::QpReqErr);
    // Refuses for now: sequence error or RNR at the expected PSN.
    void ask_again(uint8_t syndrome);

    [[nodiscard]] uint8_t ack_syndrome(uint32_t msn) const;
    bool send_answer(Resource& r, TxBudget& budget, TxBatch& batch);
    bool send_read_packet(Resource& r, uint32_t payload, TxBatch& batch);
    void answer_failed(Resource& r, uint64_t psn, wire::NakCode code);
    void send_nak(TxBatch& batch);
    // A response packet; the opcode is RC's, or XRC's of the same kind.
    TxPacket& add_response(TxBatch& batch, wire::Opcode rc_opcode, uint64_t psn, uint32_t payload = 0);

    QpContext& ctx_;
    ReceiveQueue& rq_;
    ResponderResources resources_;
    AckPolicy acks_;
    PendingNak nak_;
    uint64_t expected_ = 0;  // extended PSN
    uint32_t msn_ = 0;       // 24 bits
    bool halted_ = false;
    bool placement_failed_ = false;
    InboundMessage message_;
    // A gap before the packets that arrive, already NAKed ...
    Gap gap_ = Gap::None;
    uint64_t gap_trigger_ = 0;  // the packet that showed it
    uint64_t gap_newest_ = 0;
    // ... or to be NAKed, if what is missing does not come in time.
    Instant nak_due_ = kNever;
    KeptPackets kept_;
};

}  // namespace rocemu::transport
