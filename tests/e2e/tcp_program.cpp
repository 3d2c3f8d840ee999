// SPDX-License-Identifier: BSD-3-Clause
// An ordinary TCP program that knows nothing of RDMA: sends a pattern, gets it back, compares. librspreload turns its
// sockets into rsockets. tcp_program server ADDRESS PORT | client ADDRESS PORT BYTES
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int fail(const char* what) {
    perror(what);
    return 1;
}

// The bytes that came before the peer ended.
size_t receive(int fd, std::vector<char>& data) {
    size_t n = 0;
    while (n < data.size()) {
        const ssize_t got = recv(fd, data.data() + n, data.size() - n, 0);
        if (got <= 0) break;
        n += static_cast<size_t>(got);
    }
    return n;
}

bool send_all(int fd, const std::vector<char>& data, size_t size) {
    for (size_t n = 0; n < size;) {
        const ssize_t sent = send(fd, data.data() + n, size - n, 0);
        if (sent <= 0) return false;
        n += static_cast<size_t>(sent);
    }
    return true;
}

int serve(int fd, const sockaddr_in& address) {
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return fail("bind");
    if (listen(fd, 4) != 0) return fail("listen");
    const int peer = accept(fd, nullptr, nullptr);
    if (peer < 0) return fail("accept");
    std::vector<char> piece(10'000);
    for (;;) {
        const ssize_t n = recv(peer, piece.data(), piece.size(), 0);
        if (n < 0) return fail("recv");
        if (n == 0) break;
        if (!send_all(peer, piece, static_cast<size_t>(n))) return fail("send");
    }
    close(peer);
    return 0;
}

int ask(int fd, const sockaddr_in& address, size_t bytes) {
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return fail("connect");
    std::vector<char> out(10'000), in(out.size());
    for (size_t done = 0; done < bytes; done += out.size()) {
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>((done + i) * 7 + (i >> 5));
        if (!send_all(fd, out, out.size())) return fail("send");
        if (receive(fd, in) != in.size()) return fail("recv");
        if (in != out) {
            std::puts("the bytes that came back are others");
            return 1;
        }
    }
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[3])));
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) return fail("socket");
    const int rc = std::strcmp(argv[1], "server") == 0 ? serve(fd, address)
                                                       : ask(fd, address, static_cast<size_t>(std::atol(argv[4])));
    if (rc == 0) std::puts("all well");
    return rc;
}
