// SPDX-License-Identifier: BSD-3-Clause
// What the core wants done: packets to send, payload to move, completions and events to deliver. All batches have a
// fixed capacity, are owned by the caller and carry no references into the core that outlive the next handle_* call
// (payload pointers excepted: see SendWqe::mapped). Pattern: quinn-proto's handle/poll; see docs/architecture.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "base/verbs_types.h"
#include "memory/key_table.h"

namespace rocemu::transport {

class Qp;

// Segments shared by all requests of one batch.
inline constexpr uint32_t kBatchSegments = 512;
struct SegmentPool {
    std::array<memory::Segment, kBatchSegments> items;
    uint32_t used = 0;
    [[nodiscard]] uint32_t room() const { return kBatchSegments - used; }
};

// One packet to build. The engine adds the address headers from the QP's template, ICRC and, before sending, the
// payload: a copy from `mapped`, or a gather of segments [seg_first, seg_first + seg_count).
struct TxPacket {
    Qp* qp;
    uint8_t opcode;  // wire::Opcode
    bool ack_req;
    bool solicited;
    uint8_t pad;  // 0..3
    Psn psn;
    uint32_t payload_len;  // bytes without pad
    // Extension headers; which of them exist follows from the opcode (wire::opcode_info).
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t dma_len;
    uint8_t syndrome;      // AETH
    uint32_t msn;          // AETH, 24 bits
    uint32_t imm_data;     // as in SendWqe: ImmDt as four raw bytes (network order), IETH as a number
    uint64_t compare_add;  // AtomicETH: compare data; AtomicAckETH: the original value
    uint64_t swap;         // AtomicETH: swap-or-add data (what a fetch-and-add adds travels here)
    uint32_t qkey;         // DETH
    // UD: where to; 0 and the QP's own peer on connected QPs.
    uint32_t ah;
    uint32_t dest_qpn;
    uint32_t srqn;  // XRCETH
    // Payload.
    const std::byte* mapped;
    bool captured;  // `mapped` lies in the session's stage
    uint32_t seg_first;
    uint32_t seg_count;
    // Echoed in handle_gather_failed(). 0: the packet has nothing to gather.
    uint64_t gather_tag;
};

inline constexpr uint32_t kTxBatchPackets = 64;
struct TxBatch {
    std::array<TxPacket, kTxBatchPackets> packets;
    uint32_t count = 0;
    SegmentPool segments;
    [[nodiscard]] bool full() const { return count == kTxBatchPackets; }
    void clear() { count = segments.used = 0; }
};

// Store: Place of eight aligned bytes in one piece, which must be written by one store.
enum class DmaKind : uint8_t { Place, Store, CompareSwap, FetchAdd };
[[nodiscard]] constexpr bool is_atomic(DmaKind kind) {
    return kind == DmaKind::CompareSwap || kind == DmaKind::FetchAdd;
}

// One access to application memory that a received packet asked for. The engine executes the requests of one QP in
// order (requests of one message may be merged into one call), and reports each with handle_dma().
struct DmaRequest {
    Qp* qp;
    uint64_t tag;  // consecutive per QP
    DmaKind kind;
    const std::byte* source;  // Place, Store: inside the received frame, which the engine keeps until the result
    uint32_t length;
    uint32_t seg_first;
    uint32_t seg_count;
    // Place: the work request it belongs to, and whether the program learns of it by that one's completion only (SENDs,
    // results of READs and atomics): then it may be placed by the program itself, before that.
    uint32_t wqe_index;
    bool is_recv;
    bool deferrable;
    bool ends_write;       // the last packet of a WRITE: programs poll memory for its last bytes
    uint64_t compare_add;  // atomics, host order: what to compare with, or what to add
    uint64_t swap;
};

// Memory that can be written at once, without a DmaRequest: what the daemon has mapped too. Lent by the engine.
class DirectMemory {
  public:
    // The segment gets `segment.length` bytes. False: not reached so, or not now, or not all of it; the caller asks for the
    // usual placement. `ends_write`: DmaRequest.
    virtual bool place(const memory::Segment& segment, const std::byte* source, bool ends_write) = 0;

  protected:
    ~DirectMemory() = default;
};

// Of longer messages nothing is deferred behind this: no ibv_poll_cq copies gigabytes.
inline constexpr uint32_t kMaxDeferredBytes = 256u << 10;

inline constexpr uint32_t kDmaBatchRequests = 128;
struct DmaBatch {
    std::array<DmaRequest, kDmaBatchRequests> requests;
    uint32_t count = 0;
    SegmentPool segments;
    void clear() { count = segments.used = 0; }
};

enum class DmaStatus : uint8_t { Ok, Fault };

struct Completion {
    uint64_t wr_id;
    WcStatus status;
    WcOpcode opcode;
    bool is_recv;
    bool solicited;  // counts for a CQ armed for solicited events (errors do too)
    uint32_t index;  // SendWqe::index / RecvWqe::index
    uint32_t srq;    // RecvWqe::srq
    uint32_t byte_len;
    uint32_t wc_flags;
    uint32_t imm_data;  // raw, or the invalidated rkey
    uint32_t src_qp;
    uint8_t sl;
    // False for an unsignaled success: the provider never sees it as a WC (the engine skips it).
    bool visible;
};

inline constexpr uint32_t kCompletionBatch = 64;
struct CompletionBatch {
    std::array<Completion, kCompletionBatch> items;
    uint32_t count = 0;
    [[nodiscard]] bool full() const { return count == kCompletionBatch; }
    void clear() { count = 0; }
};

}  // namespace rocemu::transport
