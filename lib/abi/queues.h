// SPDX-License-Identifier: BSD-3-Clause
// Send, receive and completion queues as they lie in shared memory. The application's process writes SQ and RQ, the
// daemon writes the CQ. Sizes and strides are agreed at creation and kept privately by both sides; nothing that the
// other side can write is ever used as a size. Indices run freely (32 bit); slot = index & (entries - 1).
//
// A queue in a region: QueueHeader, then `entries` slots of `stride` bytes. `entries` is a power of two.
//
// A QP that enters RESET starts again with empty queues at index 0: the daemon sets its own indices to 0 before it
// replies to ModifyQp; the application then stores 0 to the producers and consumers of both queues and posts nothing
// before it has done so. CQEs that are still in the rings stay there; the application skips them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rocemu::abi {

inline constexpr size_t kCacheLine = 64;

struct QueueHeader {
    // Written by the producer with release after the slot; read by the consumer with acquire.
    // SQ/RQ: producer is the application. CQ: the daemon (for information; a CQE is found by its phase byte).
    alignas(kCacheLine) std::atomic<uint32_t> producer;
    // Written by the consumer with release. SQ/RQ: the daemon, how many slots it has copied out (for information: a
    // slot is free again when its completion was polled). CQ: the application, frees the slots behind it.
    alignas(kCacheLine) std::atomic<uint32_t> consumer;
    // CQ only. The application stores an ArmState, then a full fence; the daemon reads it after writing CQEs and a full
    // fence, and exchanges it for kDisarmed when it sends the event.
    alignas(kCacheLine) std::atomic<uint32_t> armed;
    std::atomic<uint32_t> overflow;  // CQ: set to 1 by the daemon when a CQE was lost (IBV_EVENT_CQ_ERR)
    // SQ only. Written by the daemon with release: WQEs below this index have completed, signaled or not, and nothing
    // they staged is read any more. Slots are still freed by CQEs alone.
    std::atomic<uint32_t> retired;
    // CQ only. Written by the application: an event when so many completions have come since the CQ was armed (low 16
    // bits; 0 and 1: at once), or so many microseconds after the first of them (high 16 bits; 0: no limit). Each ring
    // counts for itself.
    std::atomic<uint32_t> moderation;
};
static_assert(sizeof(QueueHeader) == 192);

enum ArmState : uint32_t { kDisarmed = 0, kArmedSolicited = 1, kArmedAny = 2 };

// Address and length of application memory, as in ibv_sge.
struct WqeSge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

enum class PayloadKind : uint8_t {
    Sges = 0,    // num_sge WqeSge follow the header
    Inline = 1,  // `length` bytes follow the header
    Staged = 2,  // as Sges; `stage_ref` says where the bytes have been copied to (abi/stage.h)
};

// Send WQE: this header, then SGEs or inline bytes up to the stride.
struct SqWqe {
    uint64_t wr_id;
    uint8_t opcode;        // WrOpcode
    uint8_t flags;         // send_flags
    uint8_t num_sge;
    uint8_t payload_kind;  // PayloadKind
    uint32_t length;       // bytes of an inline payload; ignored for SGEs (their sum counts)
    uint32_t imm_data;     // network order, or rkey to invalidate, or lkey (BIND_MW)
    uint32_t rkey;         // UD: remote Q_Key
    uint64_t remote_addr;  // UD: low 32 bits remote QPN, high 32 bits AH number
    uint64_t compare_add;
    uint64_t swap;
    uint64_t stage_ref;    // Staged: accessed atomically, abi/stage.h; else 0
    uint32_t remote_srqn;  // XRC: the peer's shared receive queue
    uint32_t reserved;
};
static_assert(sizeof(SqWqe) == 64);

struct RqWqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t reserved;
    // num_sge WqeSge follow
};
static_assert(sizeof(RqWqe) == 16);

constexpr uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }
constexpr uint32_t sq_stride(uint32_t max_sge, uint32_t max_inline) {
    const uint32_t sges = max_sge * static_cast<uint32_t>(sizeof(WqeSge));
    return round_up(static_cast<uint32_t>(sizeof(SqWqe)) + (sges > max_inline ? sges : max_inline), 64);
}
constexpr uint32_t rq_stride(uint32_t max_sge) {
    return round_up(static_cast<uint32_t>(sizeof(RqWqe)) + max_sge * static_cast<uint32_t>(sizeof(WqeSge)), 32);
}

// In place of a QP's slot: a receive of an XRC SRQ. Its QP may be of another program, and has no queue to free slots of.
inline constexpr uint32_t kSrqSlot = 0xFFFFFFFE;

struct Cqe {
    uint64_t wr_id;
    uint64_t timestamp_ns;  // CLOCK_MONOTONIC when the daemon wrote it
    uint64_t stage_ref;     // reserved for payload deferred to the receive stage
    uint32_t qpn;
    uint32_t qp_slot;    // the session's number of the QP (CreateQpReply::slot), or kSrqSlot
    uint32_t wqe_index;  // free-running index of the WQE: slots up to and including it are free again (SQ, RQ)
    uint32_t byte_len;
    uint32_t imm_data;   // raw, or the invalidated rkey
    uint32_t src_qp;
    uint32_t vendor_err;
    uint16_t wc_flags;
    uint16_t slid;
    uint16_t pkey_index;
    uint8_t status;   // WcStatus
    uint8_t opcode;   // WcOpcode
    uint8_t is_recv;
    uint8_t sl;
    uint8_t reserved;
    // Written last, with release. Memory starts as zero; pass k over the ring writes (k + 1) & 1, so 1 in the first.
    std::atomic<uint8_t> phase;
};
static_assert(sizeof(Cqe) == 64);
static_assert(offsetof(Cqe, phase) == 63);

}  // namespace rocemu::abi
