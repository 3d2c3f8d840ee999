// SPDX-License-Identifier: BSD-3-Clause
// The provider's control connection when its peer speaks nonsense: nothing works any more, and the peer sees the end, so
// that a daemon lets go of what the program believes to be gone.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <thread>

#include "provider/connection.h"

using namespace rocemu;

TEST_CASE("after an answer that is none the other end sees the end of the connection") {
    const std::string path = "/tmp/rocemu-test-" + std::to_string(getpid()) + "-connection.sock";
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(listener, 1) == 0);
    provider::Connection connection;
    REQUIRE(connection.connect(path.c_str(), 10'000) == 0);
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(peer >= 0);
    const timeval limit{10, 0};
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);

    char request[abi::kMaxMessageBytes];
    std::thread answer([&] {
        if (recv(peer, request, sizeof request, 0) > 0) (void)send(peer, "no", 2, MSG_NOSIGNAL);
    });
    abi::ListDeviceReply reply;
    CHECK(connection.call(abi::ListDeviceRequest{0}, reply) == EIO);
    answer.join();
    CHECK(connection.broken());
    CHECK(recv(peer, request, sizeof request, 0) == 0);
    CHECK(connection.call(abi::ListDeviceRequest{0}, reply) == EIO);
    close(peer);
    close(listener);
    unlink(path.c_str());
}
