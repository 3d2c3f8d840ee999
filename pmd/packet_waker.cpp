// SPDX-License-Identifier: BSD-3-Clause
// See packet_waker.h.
#include "pmd/packet_waker.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rocemu::pmd {

namespace {

// Classic BPF over the Ethernet frame. A match keeps one byte of it: nobody reads the content.
constexpr sock_filter kFilter[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 14, 0),  // ours or the kernel's own: no
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),                       // EtherType
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x8915, 11, 0),           // RoCE v1: yes
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x0806, 10, 0),           // ARP: yes
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x0800, 0, 4),            // IPv4 ...
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),                       // ... protocol
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 8),                // not UDP: no
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),                       // destination port (no options in RoCE)
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4791, 5, 6),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x86dd, 0, 5),  // IPv6 ...
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),             // ... next header
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 58, 2, 0),      // ICMPv6: yes
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 2),      // not UDP: no
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),             // destination port: all of it will do
    BPF_STMT(BPF_RET | BPF_K, 1),                       // yes
    BPF_STMT(BPF_RET | BPF_K, 0),                       // no
};

}  // namespace

std::unique_ptr<PacketWaker> PacketWaker::open(const std::string& netdev) {
    const unsigned index = if_nametoindex(netdev.c_str());
    if (index == 0) return nullptr;
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return nullptr;
    auto waker = std::unique_ptr<PacketWaker>(new PacketWaker(fd));
    const sock_fprog program{sizeof kFilter / sizeof kFilter[0], const_cast<sock_filter*>(kFilter)};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) return nullptr;
    const int smallest = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return nullptr;
    return waker;
}

PacketWaker::~PacketWaker() {
    close(fd_);
}

void PacketWaker::drain() {
    char byte;
    // Bounded: the buffer holds a packet or two, and more may arrive meanwhile.
    for (int i = 0; i < 64 && recv(fd_, &byte, sizeof byte, 0) >= 0; ++i) {
    }
}

}  // namespace rocemu::pmd
