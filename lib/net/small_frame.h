// SPDX-License-Identifier: BSD-3-Clause
// SmallFrame: a frame of ARP, neighbour discovery or a group report, tagged where the address it speaks for is one of a VLAN.
// Read IEEE 802.1Q 9.6. Its priority is 0, as the kernel sends them.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "net/arp.h"
#include "net/group_report.h"
#include "net/neighbour_discovery.h"
#include "wire/eth.h"

namespace rocemu::net {

class SmallFrame {
  public:
    SmallFrame(std::span<const std::byte> untagged, uint16_t vlan) : size_(std::min(untagged.size(), kRoom)) {
        if (vlan == wire::kNoVlan) {
            std::copy_n(untagged.begin(), size_, bytes_.begin());
            return;
        }
        auto eth = wire::EthHeader::parse(untagged.data());
        const wire::VlanTag tag{vlan, eth.ether_type};
        eth.ether_type = wire::kEtherTypeVlan;
        eth.write(bytes_.data());
        tag.write(bytes_.data() + wire::EthHeader::kSize);
        std::copy(untagged.begin() + wire::EthHeader::kSize, untagged.begin() + static_cast<ptrdiff_t>(size_),
                  bytes_.begin() + wire::EthHeader::kSize + wire::VlanTag::kSize);
        size_ += wire::VlanTag::kSize;
    }

    [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

  private:
    static constexpr size_t kRoom = std::max({kArpFrameSize, kNdFrameSize, GroupReport::kMaxSize});

    size_t size_;
    std::array<std::byte, kRoom + wire::VlanTag::kSize> bytes_{};
};

}  // namespace rocemu::net
