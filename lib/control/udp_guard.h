// SPDX-License-Identifier: BSD-3-Clause
// UdpGuard: keeps the kernel of a shared interface from answering RoCE v2 packets with ICMP port unreachable: sockets
// bound to UDP 4791 on that interface whose filter drops everything. Needs no privileges. The packets themselves reach
// us beside it, through the DPDK port. Without the guard Linux peers reset their QPs on the ICMP error.
#pragma once

#include <memory>
#include <string>

namespace rocemu::control {

class UdpGuard {
  public:
    // nullptr and a reason (for example: another program has bound the port).
    static std::unique_ptr<UdpGuard> open(const std::string& netdev, std::string& error);
    ~UdpGuard();
    UdpGuard(const UdpGuard&) = delete;
    UdpGuard& operator=(const UdpGuard&) = delete;

  private:
    UdpGuard() = default;
    int fds_[2] = {-1, -1};  // IPv4, IPv6 (-1 where the kernel has no IPv6)
};

}  // namespace rocemu::control
