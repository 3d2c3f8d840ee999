// SPDX-License-Identifier: BSD-3-Clause
// See channel.h.
#include "channel.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace interop {

namespace {

int new_socket() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) throw Failure("no socket");
    return fd;
}

void no_delay(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Listener::Listener(uint16_t port) : fd_(new_socket()) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || ::listen(fd_, 64) != 0)
        throw Failure("cannot listen on port " + std::to_string(port));
}

Listener::~Listener() {
    close(fd_);
}

Channel Listener::accept() {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) throw Failure("accept failed");
    no_delay(fd);
    return Channel(fd);
}

Channel Channel::connect(const std::string& address, uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) throw Failure("not an address: " + address);
    for (int attempt = 0; attempt < 200; ++attempt) {
        const int fd = new_socket();
        if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
            no_delay(fd);
            return Channel(fd);
        }
        close(fd);
        usleep(100'000);
    }
    throw Failure("nobody listens at " + address);
}

Channel::~Channel() {
    if (fd_ >= 0) close(fd_);
}

void Channel::send(const void* data, size_t size) {
    const auto* from = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t n = ::send(fd_, from, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw Failure("the other process is gone");
        from += n;
        size -= static_cast<size_t>(n);
    }
}

void Channel::receive(void* data, size_t size) {
    auto* to = static_cast<char*>(data);
    while (size > 0) {
        const ssize_t n = recv(fd_, to, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw Failure("the other process is gone");
        to += n;
        size -= static_cast<size_t>(n);
    }
}

bool Channel::readable() const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
}

bool Channel::gone() const {
    char byte = 0;
    return recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void Channel::send_text(const std::string& text) {
    const auto n = static_cast<uint32_t>(text.size());
    send(&n, sizeof n);
    send(text.data(), text.size());
}

std::string Channel::receive_text() {
    uint32_t n = 0;
    receive(&n, sizeof n);
    if (n > 65536) throw Failure("a text of " + std::to_string(n) + " bytes");
    std::string text(n, 0);
    receive(text.data(), n);
    return text;
}

}  // namespace interop
