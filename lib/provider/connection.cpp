// SPDX-License-Identifier: BSD-3-Clause
// See connection.h. No signal ever comes of a daemon that is gone (MSG_NOSIGNAL), and a thread that is cancelled does
// not leave in the middle of an exchange.
#include "provider/connection.h"

#include <cerrno>
#include <cstring>

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "provider/high_fd.h"
#include "provider/no_cancel.h"

namespace rocemu::provider {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int) * FdList::kCapacity);

void take_fds(msghdr& message, FdList& out) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            out.add(fd);
        }
    }
}

}  // namespace

int Connection::connect(const char* path, uint32_t timeout_ms) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) return ENAMETOOLONG;
    std::strcpy(address.sun_path, path);

    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int rc;
    do rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    fd_ = move_up(fd);
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) daemon_pid_ = peer.pid;
    broken_ = false;
    set_timeout(timeout_ms);
    return 0;
}

void Connection::set_timeout(uint32_t timeout_ms) {
    timeval t{};
    t.tv_sec = timeout_ms / 1000;
    t.tv_usec = static_cast<suseconds_t>(timeout_ms % 1000) * 1000;
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

void Connection::disconnect() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    broken_ = true;
}

void Connection::give_up() {
    broken_ = true;
    shutdown(fd_, SHUT_RDWR);
}

HelloFailure Connection::hello(bool admin, uint64_t features, abi::HelloReply& reply, FdList& received, int* error) {
    abi::HelloRequest request;
    request.pid = static_cast<uint32_t>(getpid());
    request.features = features;
    request.admin = admin ? 1 : 0;
    alignas(16) uint8_t cookie[16] = {};
    if (getrandom(cookie, sizeof cookie, GRND_NONBLOCK) != sizeof cookie) std::memset(cookie, 0x5a, sizeof cookie);
    std::memcpy(request.probe_cookie, cookie, sizeof cookie);
    request.probe_va = reinterpret_cast<uint64_t>(&cookie[0]);
    // Yama lets only descendants be read unless the process names who may. Not an error where there is no Yama.
    if (!admin && daemon_pid_ > 0) prctl(PR_SET_PTRACER, static_cast<unsigned long>(daemon_pid_), 0, 0, 0);

    *error = call(request, reply, {}, &received);
    if (*error == EPROTONOSUPPORT) return HelloFailure::Version;
    if (*error == EPERM || *error == EACCES) return HelloFailure::Refused;
    if (*error != 0) return HelloFailure::Protocol;
    if (reply.version_major != abi::kVersionMajor) {
        *error = EPROTONOSUPPORT;
        return HelloFailure::Version;
    }
    return HelloFailure::None;
}

int Connection::exchange(abi::MessageType type, const void* request, size_t request_bytes, void* reply,
                         size_t reply_bytes, std::span<const int> send_fds, FdList* received) {
    if (broken()) return EIO;
    NoCancel no_cancel;
    Guard guard(mutex_);
    if (broken()) return EIO;
    abi::MessageHeader header;
    header.type = static_cast<uint16_t>(type);
    header.request_id = next_id_++;
    int rc = send_record(header, request, request_bytes, send_fds);
    if (rc == 0) rc = receive_record(header.request_id, reply, reply_bytes, received);
    if (rc >= 0) return rc;
    give_up();
    return EIO;
}

// 0, -1: broken, or the errno value of descriptors that cannot be sent: nothing was.
int Connection::send_record(const abi::MessageHeader& header, const void* request, size_t bytes,
                            std::span<const int> fds) {
    iovec parts[2] = {{const_cast<abi::MessageHeader*>(&header), sizeof header}, {const_cast<void*>(request), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
    if (!fds.empty() && fds.size() <= 4) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
    }
    ssize_t n;
    do n = sendmsg(fd_, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && !fds.empty() && (errno == EBADF || errno == ETOOMANYREFS)) return errno;
    return n == static_cast<ssize_t>(sizeof header + bytes) ? 0 : -1;
}

// The status of the reply (0 or errno), or -1: broken.
int Connection::receive_record(uint32_t request_id, void* reply, size_t bytes, FdList* received) {
    abi::MessageHeader header;
    iovec parts[2] = {{&header, sizeof header}, {reply, bytes}};
    alignas(cmsghdr) char control[kControlBytes];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    do n = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -1;
    FdList unwanted;
    take_fds(message, received != nullptr ? *received : unwanted);
    if (static_cast<size_t>(n) < sizeof header || header.magic != abi::kMagic || header.request_id != request_id ||
        header.status < 0)
        return -1;
    // A daemon of a newer minor version may append fields (cut off here), an older one leaves ours at their defaults.
    return header.status;
}

}  // namespace rocemu::provider
