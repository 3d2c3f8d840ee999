// SPDX-License-Identifier: BSD-3-Clause
// Grh: the global route header, layer 3 of RoCE v1. Read IBTA volume 1, 8.3 and annex A16.
// It has the layout of an IPv6 header: PayLen counts from behind the GRH to the end of the ICRC, NxtHdr 0x1B
// announces a BTH, and TClass, FlowLabel, HopLmt, SGID, DGID sit where IPv6 has their counterparts.
#pragma once

#include "wire/ipv6.h"

namespace rocemu::wire {

struct Grh : Ipv6Header {
    static constexpr uint8_t kNextHeaderBth = 0x1b;  // IBTA 8.3: IBA transport

    Grh() { next_header = kNextHeaderBth; }

    [[nodiscard]] static Grh parse(const std::byte* p) {
        Grh h;
        h.read(p);
        return h;
    }
};

}  // namespace rocemu::wire
