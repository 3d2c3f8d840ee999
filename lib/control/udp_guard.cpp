// SPDX-License-Identifier: BSD-3-Clause
// See udp_guard.h.
#include "control/udp_guard.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rocemu::control {

namespace {

constexpr uint16_t kPort = 4791;

// A socket that exists (so the port is reachable) and receives nothing. -1 and errno on failure.
int open_guard(int family, const std::string& netdev) {
    const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const sock_fprog program{1, const_cast<sock_filter*>(drop_all)};
    const int one = 1;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netdev.data(), static_cast<socklen_t>(netdev.size())) == 0;
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
        sockaddr_in6 any{};
        any.sin6_family = AF_INET6;
        any.sin6_port = htons(kPort);
        ok = ok && bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
    } else {
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_port = htons(kPort);
        ok = ok && bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
    }
    if (ok) return fd;
    const int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

}  // namespace

std::unique_ptr<UdpGuard> UdpGuard::open(const std::string& netdev, std::string& error) {
    auto guard = std::unique_ptr<UdpGuard>(new UdpGuard());
    guard->fds_[0] = open_guard(AF_INET, netdev);
    if (guard->fds_[0] < 0) {
        error = "UDP port 4791 on " + netdev + " cannot be guarded: " +
                (errno == EADDRINUSE ? "another RoCE stack uses this interface" : std::strerror(errno));
        return nullptr;
    }
    guard->fds_[1] = open_guard(AF_INET6, netdev);  // a kernel without IPv6 answers nothing on it
    return guard;
}

UdpGuard::~UdpGuard() {
    for (const int fd : fds_)
        if (fd >= 0) close(fd);
}

}  // namespace rocemu::control
