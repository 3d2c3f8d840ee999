// SPDX-License-Identifier: BSD-3-Clause
// From a range of a message to application memory: finds the SGEs that hold bytes [offset, offset + length) of a
// message and checks each key. Keys are looked at when a packet is built or placed, never earlier: an MR may be
// deregistered while a message is under way. Read IBTA volume 1, 10.6.3 and 11.4.1.1.
#pragma once

#include <cstdint>
#include <span>

#include "base/verbs_types.h"
#include "memory/key_table.h"

namespace rocemu::transport {

enum class SgeStatus : uint8_t {
    Ok,
    NoRoom,  // more segments than `out` holds
    BadKey,  // a key, PD, bound or access right does not fit
    Short,   // the SGEs end before the range does
};

// `need`: access_flags each region must have (0 for reading local memory). SGEs of length 0 are not looked at.
// `count` gets the number of segments written; it is valid with Ok only.
[[nodiscard]] SgeStatus resolve_range(const memory::KeyTable& keys, memory::PdId pd, std::span<const Sge> sges,
                                      uint64_t offset, uint64_t length, uint32_t need, std::span<memory::Segment> out,
                                      uint32_t& count);

}  // namespace rocemu::transport
