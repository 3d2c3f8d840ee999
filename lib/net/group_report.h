// SPDX-License-Identifier: BSD-3-Clause
// Group reports: what a NIC tells routers and switches about the multicast groups it wants, where no kernel does.
// Read RFC 3376 4.2 (IGMPv3) and RFC 3810 5.2 (MLDv2). One record of one group, without sources.
#pragma once

#include <array>
#include <span>

#include "wire/eth.h"
#include "wire/gid.h"

namespace rocemu::net {

// The record types, the same in both protocols.
enum class GroupChange : uint8_t { Still = 2, Left = 3, Joined = 4 };

class GroupReport {
  public:
    // `source`: an address of ours, for IPv6 the link-local one; of the kind (IPv4, IPv6) of `group`.
    GroupReport(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change);
    [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

    static constexpr size_t kMaxSize = wire::EthHeader::kSize + 40 + 8 + 8 + 20;

  private:
    void igmp(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change);
    void mld(const wire::MacAddress& our_mac, const wire::Gid& source, const wire::Gid& group, GroupChange change);

    std::array<std::byte, kMaxSize> bytes_{};
    size_t size_ = 0;
};

}  // namespace rocemu::net
