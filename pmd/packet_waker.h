// SPDX-License-Identifier: BSD-3-Clause
// PacketWaker: something to sleep on for a port whose driver has no RX interrupt (net_af_packet). A packet socket of
// its own on the same interface, with a filter for what we care about (UDP 4791, RoCE v1, ARP, ND) and the smallest
// buffer: while it is full the kernel only runs the filter. It must be opened before the driver's socket: the kernel
// serves sockets last opened first, so the driver has the frame when this one becomes readable.
#pragma once

#include <memory>
#include <string>

namespace rocemu::pmd {

class PacketWaker {
  public:
    // nullptr: no such socket (not permitted, no interface); then the port is looked at now and then.
    static std::unique_ptr<PacketWaker> open(const std::string& netdev);
    ~PacketWaker();
    PacketWaker(const PacketWaker&) = delete;
    PacketWaker& operator=(const PacketWaker&) = delete;

    [[nodiscard]] int fd() const { return fd_; }
    void drain();

  private:
    explicit PacketWaker(int fd) : fd_(fd) {}
    int fd_;
};

}  // namespace rocemu::pmd
