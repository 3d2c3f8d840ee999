// SPDX-License-Identifier: BSD-3-Clause
// Opcode and what each one means: transport, operation, place in the message, which extension headers follow the
// BTH and where, and whether payload follows them. The rows are in opcode_table.h; this file turns them into a
// constexpr lookup. Read IBTA volume 1, 9.2.1 (opcodes) and 9.3 (extension headers).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/deth.h"
#include "wire/feth.h"
#include "wire/ieth.h"
#include "wire/immdt.h"
#include "wire/opcode_table.h"
#include "wire/reth.h"
#include "wire/xrceth.h"

namespace rocemu::wire {

enum class Transport : uint8_t { Rc, Uc, Ud, Xrc, Cnp, Raw };  // Raw: no transport at all (raw_frame.h)

enum class Operation : uint8_t {
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    Flush,
    AtomicWrite,
    Cnp,
};

enum class Position : uint8_t { First, Middle, Last, Only };

// Extension headers as a bit set. Ascending bits are the order on the wire.
namespace ext {
inline constexpr size_t kCount = 9;
inline constexpr uint16_t kXrcEth = 1 << 0;
inline constexpr uint16_t kDeth = 1 << 1;
inline constexpr uint16_t kFeth = 1 << 2;
inline constexpr uint16_t kReth = 1 << 3;
inline constexpr uint16_t kAtomicEth = 1 << 4;
inline constexpr uint16_t kAeth = 1 << 5;
inline constexpr uint16_t kAtomicAckEth = 1 << 6;
inline constexpr uint16_t kImmDt = 1 << 7;
inline constexpr uint16_t kIeth = 1 << 8;
inline constexpr std::array<uint8_t, kCount> kSizes{XrcEth::kSize,       Deth::kSize,      Feth::kSize,
                                                    Reth::kSize,         AtomicEth::kSize, Aeth::kSize,
                                                    AtomicAckEth::kSize, ImmDt::kSize,     Ieth::kSize};

// Bytes that the headers in `set` take; with a mask below one bit: the offset of that header behind the BTH.
[[nodiscard]] constexpr uint8_t size_of(uint16_t set) {
    unsigned size = 0;
    for (size_t i = 0; i < kCount; ++i)
        if (set & (1u << i)) size += kSizes[i];
    return static_cast<uint8_t>(size);
}
}  // namespace ext

enum class Opcode : uint8_t {
#define ROCEMU_X(name, code, text, transport, operation, position, extensions, payload) name = code,
    ROCEMU_OPCODES(ROCEMU_X)
#undef ROCEMU_X
};

struct OpcodeInfo {
    const char* name = nullptr;  // nullptr: not an opcode we know
    Transport transport = Transport::Rc;
    Operation operation = Operation::Send;
    Position position = Position::Only;
    bool has_payload = false;
    uint8_t ext_size = 0;  // bytes of all extension headers
    uint16_t extensions = 0;
    std::array<uint8_t, ext::kCount> ext_offset{};  // bytes behind the BTH, by bit number; valid where the bit is set

    [[nodiscard]] constexpr bool valid() const { return name != nullptr; }
    [[nodiscard]] constexpr bool has(uint16_t extension) const { return extensions & extension; }
    [[nodiscard]] constexpr bool has_immediate() const { return has(ext::kImmDt); }
    [[nodiscard]] constexpr bool has_invalidate() const { return has(ext::kIeth); }
    // Starts a message: FIRST or ONLY. Ends one: LAST or ONLY.
    [[nodiscard]] constexpr bool starts_message() const {
        return position == Position::First || position == Position::Only;
    }
    [[nodiscard]] constexpr bool ends_message() const {
        return position == Position::Last || position == Position::Only;
    }
    // READ responses, ACKs and ATOMIC ACKs go to the requester; everything else except the CNP to the responder.
    [[nodiscard]] constexpr bool is_response() const {
        return operation == Operation::ReadResponse || operation == Operation::Acknowledge ||
               operation == Operation::AtomicAcknowledge;
    }
    [[nodiscard]] constexpr bool is_request() const { return !is_response() && operation != Operation::Cnp; }
    [[nodiscard]] constexpr bool is_ack() const {
        return operation == Operation::Acknowledge || operation == Operation::AtomicAcknowledge;
    }
    [[nodiscard]] constexpr bool is_atomic() const {
        return operation == Operation::CompareSwap || operation == Operation::FetchAdd;
    }
    // Answered by a response of its own: it takes one of the responder's resources (A19: an ATOMIC WRITE too).
    [[nodiscard]] constexpr bool takes_resource() const {
        return operation == Operation::ReadRequest || is_atomic() || operation == Operation::AtomicWrite;
    }
    // IBTA 9.4.1, 9.4.3: SENDs and WRITEs with immediate take a receive WQE from the queue.
    [[nodiscard]] constexpr bool consumes_receive() const {
        return operation == Operation::Send || (operation == Operation::Write && has_immediate());
    }
    // The packet of its message that does so.
    [[nodiscard]] constexpr bool takes_receive() const {
        return operation == Operation::Send ? starts_message() : consumes_receive();
    }
};

namespace detail {
constexpr OpcodeInfo make_info(const char* name, Transport transport, Operation operation, Position position,
                               unsigned extensions, bool payload) {
    OpcodeInfo info{name,
                    transport,
                    operation,
                    position,
                    payload,
                    ext::size_of(static_cast<uint16_t>(extensions)),
                    static_cast<uint16_t>(extensions),
                    {}};
    for (size_t i = 0; i < ext::kCount; ++i)
        info.ext_offset[i] = ext::size_of(static_cast<uint16_t>(extensions & ((1u << i) - 1)));
    return info;
}
constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
    std::array<OpcodeInfo, 256> table{};
#define ROCEMU_X(name, code, text, transport, operation, position, extensions, payload) \
    table[code] =                                                                       \
        make_info(text, Transport::transport, Operation::operation, Position::position, (extensions), payload);
    ROCEMU_OPCODES(ROCEMU_X)
#undef ROCEMU_X
    return table;
}
inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = make_opcode_table();

constexpr size_t largest_ext_size() {
    size_t largest = 0;
    for (const auto& info : kOpcodeTable)
        if (info.ext_size > largest) largest = info.ext_size;
    return largest;
}
}  // namespace detail

// Every byte value has an entry; check valid().
[[nodiscard]] constexpr const OpcodeInfo& opcode_info(uint8_t opcode) {
    return detail::kOpcodeTable[opcode];
}
[[nodiscard]] constexpr const OpcodeInfo& opcode_info(Opcode opcode) {
    return detail::kOpcodeTable[static_cast<uint8_t>(opcode)];
}

// The most bytes that extension headers take behind a BTH (an XRC atomic request).
inline constexpr size_t kMaxExtSize = detail::largest_ext_size();

}  // namespace rocemu::wire
