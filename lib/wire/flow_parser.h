// SPDX-License-Identifier: BSD-3-Clause
// FlowParser: most frames of a burst follow one of the same flow, and differ from it in a few fields only. What was
// found in all others need not be looked at again: one comparison says that they are the same. For frames of the common
// shape (untagged, IPv4); all others, and all that are not in order in any way, are parse_frame's.
#pragma once

#include <array>
#include <span>

#include "wire/packet_view.h"

namespace rocemu::wire {

class FlowParser {
  public:
    // `view` is what parse_frame has found in `frame`: frames that come now may be of its flow.
    void remember(std::span<const std::byte> frame, const PacketView& view);
    void forget() { known_ = false; }
    // True: `frame` has the addresses, the UDP source port, the P_Key and the destination QP of the one remembered, and
    // `view`, which must be as remember() or parse() left it, is now what parse_frame would have made of it. False: it is
    // not, or parse_frame might drop it; `view` is unspecified.
    [[nodiscard]] bool parse(std::span<const std::byte> frame, PacketView& view) const;

  private:
    static constexpr size_t kWords = 7;  // Ethernet, IPv4, UDP, and the BTH up to the destination QP

    bool known_ = false;
    std::array<uint64_t, kWords> words_{};
    uint32_t checksum_base_ = 0;  // sum of the words of the IPv4 header that are the same in all frames
};

}  // namespace rocemu::wire
