// SPDX-License-Identifier: BSD-3-Clause
// Attacks on the control socket. See hostile.h.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/messages.h"
#include "hostile.h"

namespace hostile {

using namespace rocemu;

uint64_t Random::nasty() {
    switch (below(6)) {
        case 0: return below(16);
        case 1: return ~uint64_t{0} - below(4096);
        case 2: return (uint64_t{1} << below(64)) + below(3) - 1;
        case 3: return uint32_t(next());
        case 4: return 0xFFFFFFFFu - below(16);
        default: return next();
    }
}

void Random::fill(void* memory, size_t bytes) {
    auto* p = static_cast<uint8_t*>(memory);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t v = one_in(3) ? nasty() : next();
        std::memcpy(p + i, &v, std::min<size_t>(8, bytes - i));
    }
}

namespace {

constexpr size_t kLongest = 12'000;  // above the daemon's limit

int connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (fd >= 0) close(fd);
        return -1;
    }
    const timeval limit{2, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

// A descriptor somebody could send: a pipe, an eventfd, a socket, a file, the control socket itself.
int odd_fd(Random& random, int control) {
    int pair[2];
    switch (random.below(5)) {
        case 0: return eventfd(0, EFD_CLOEXEC);
        case 1:
            if (pipe2(pair, O_CLOEXEC) != 0) return -1;
            close(pair[0]);
            return pair[1];
        case 2:
            if (socketpair(AF_UNIX, random.one_in(2) ? SOCK_SEQPACKET : SOCK_STREAM, 0, pair) != 0) return -1;
            close(pair[0]);
            return pair[1];
        case 3: return memfd_create("odd", MFD_CLOEXEC);
        default: return dup(control);
    }
}

bool send_record(int fd, const void* data, size_t bytes, Random& random, uint32_t fd_count) {
    iovec part{const_cast<void*>(data), bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 32)] = {};
    int fds[32];
    uint32_t count = 0;
    for (uint32_t i = 0; i < std::min(fd_count, 32u); ++i)
        if (const int odd = odd_fd(random, fd); odd >= 0) fds[count++] = odd;
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        cmsghdr* c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        std::memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    const bool ok = sendmsg(fd, &message, MSG_NOSIGNAL) >= 0;
    for (uint32_t i = 0; i < count; ++i) close(fds[i]);
    return ok;
}

struct Shape {
    uint16_t type;
    size_t bytes;
};
constexpr Shape kShapes[] = {
#define MESSAGE(name, number) {number, sizeof(abi::name##Request)},
#include "abi/messages.def"
#undef MESSAGE
};

std::vector<uint8_t> record_of(const Shape& shape, Random& random) {
    std::vector<uint8_t> record(sizeof(abi::MessageHeader) + shape.bytes);
    abi::MessageHeader header;
    header.type = shape.type;
    header.request_id = static_cast<uint32_t>(random.next());
    random.fill(record.data(), record.size());
    // Handles that may exist: the small numbers that a session is given first.
    if (random.one_in(2))
        for (size_t at = sizeof header; at + 4 <= record.size(); at += 4)
            if (random.one_in(2)) {
                const uint32_t small = random.below(5);
                std::memcpy(&record[at], &small, sizeof small);
            }
    std::memcpy(record.data(), &header, sizeof header);
    return record;
}

bool greet(int fd, Random& random) {
    struct {
        abi::MessageHeader header;
        abi::HelloRequest request;
    } record{};
    record.header.type = static_cast<uint16_t>(abi::MessageType::Hello);
    uint8_t cookie[16];
    random.fill(cookie, sizeof cookie);
    std::memcpy(record.request.probe_cookie, cookie, sizeof cookie);
    record.request.probe_va = reinterpret_cast<uint64_t>(cookie);
    record.request.features = 3;
    record.request.pid = static_cast<uint32_t>(random.next());
    if (send(fd, &record, sizeof record, MSG_NOSIGNAL) < 0) return false;
    uint8_t reply[abi::kMaxMessageBytes];
    return recv(fd, reply, sizeof reply, 0) > 0;  // its descriptors are dropped
}

}  // namespace

Outcome send_garbage(const std::string& socket, Random& random) {
    const int fd = connect_to(socket);
    if (fd < 0) return Outcome::NoDaemon;
    if (random.one_in(3)) greet(fd, random);
    std::vector<uint8_t> record(kLongest);
    for (uint32_t i = 0; i < 1 + random.below(4); ++i) {
        size_t bytes = random.below(random.one_in(2) ? 200 : kLongest);
        random.fill(record.data(), bytes);
        if (random.one_in(2) && bytes >= sizeof(abi::MessageHeader)) {
            // A right header in front of a body of the wrong length.
            abi::MessageHeader header;
            header.type = static_cast<uint16_t>(random.below(40));
            std::memcpy(record.data(), &header, sizeof header);
        }
        if (!send_record(fd, record.data(), bytes, random, random.one_in(3) ? random.below(32) : 0)) break;
    }
    if (random.one_in(2)) recv(fd, record.data(), record.size(), 0);
    close(fd);
    return Outcome::Done;
}

Outcome send_made_up_messages(const std::string& socket, Random& random) {
    const int fd = connect_to(socket);
    if (fd < 0) return Outcome::NoDaemon;
    if (!random.one_in(10) && !greet(fd, random)) {
        close(fd);
        return Outcome::Done;
    }
    uint8_t reply[abi::kMaxMessageBytes];
    const uint32_t count = random.below(60);
    for (uint32_t i = 0; i < count; ++i) {
        const Shape& shape = kShapes[random.below(std::size(kShapes))];
        const std::vector<uint8_t> record = record_of(shape, random);
        const uint32_t fds = random.one_in(2) ? 1 : random.below(3);
        if (!send_record(fd, record.data(), record.size(), random, fds)) break;
        // Closed in the middle of this message, or many of them before the first reply is read.
        if (random.one_in(12)) break;
        if (!random.one_in(4) && recv(fd, reply, sizeof reply, 0) <= 0) break;
    }
    close(fd);
    return Outcome::Done;
}

}  // namespace hostile
