// SPDX-License-Identifier: BSD-3-Clause
// See connection.h. No signal ever comes of a daemon that is gone (MSG_NOSIGNAL), and a thread that is cancelled does
// not leave in the middle of an exchange.
#include "provider/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/socket_path.h"
#include "provider/high_fd.h"
#include "provider/no_cancel.h"

namespace rocemu::provider {

thread_local Connection::Waiter* Connection::here_ = nullptr;

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
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    // A daemon reads and writes this process's memory.
    if (abi::is_public_socket(path) && (!known || (peer.uid != geteuid() && peer.uid != 0))) {
        close(fd);
        return EPERM;
    }
    fd_ = move_up(fd);
    if (known) daemon_pid_ = peer.pid;
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

void Connection::forget() {
    disconnect();
    mutex_.forget();
    // Of those who wait and of the reader only this thread is left, if it was one.
    reading_ = false;
    waiters_ = here_;
    if (here_ == nullptr) return;
    here_->next = nullptr;
    here_->asleep = 0;
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

    KeepFds keep(received);
    *error = call(request, reply, {}, &keep);
    if (*error == EPROTONOSUPPORT) return HelloFailure::Version;
    if (*error == EPERM || *error == EACCES) return HelloFailure::Refused;
    if (*error != 0) return HelloFailure::Protocol;
    if (reply.version_major != abi::kVersionMajor) {
        *error = EPROTONOSUPPORT;
        return HelloFailure::Version;
    }
    return HelloFailure::None;
}

int Connection::exchange(abi::MessageType type, const void* request, size_t request_bytes, Waiter self,
                         std::span<const int> send_fds) {
    if (broken()) return EIO;
    NoCancel no_cancel;
    abi::MessageHeader header;
    header.type = static_cast<uint16_t>(type);
    {
        // In the list before it is sent: another thread may read its reply at once.
        Guard guard(mutex_);
        if (broken()) return EIO;
        header.request_id = self.id = next_id_++;
        self.next = waiters_;
        waiters_ = &self;
    }
    here_ = &self;
    // Records are whole, so threads may send at the same time. One that has no room waits for the daemon, which may wait for
    // replies to be read: whoever they are for has sent, and reads.
    const int error = send_record(header, request, request_bytes, send_fds);
    if (error < 0) give_up();
    const int status = error > 0 ? withdraw(self, error) : await(self);
    here_ = nullptr;
    return status < 0 ? EIO : status;
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

// A request that was not sent; `error`, or what it got meanwhile.
int Connection::withdraw(Waiter& self, int error) {
    {
        Guard guard(mutex_);
        if (!self.claimed && !self.answered) {
            remove(self);
            return error;
        }
    }
    return await(self);  // answered although it was not sent
}

// The status of the reply (0 or errno), or -1: broken.
int Connection::await(Waiter& self) {
    Guard guard(mutex_);
    while (!self.answered) {
        if (!reading_) {
            reading_ = true;
            mutex_.unlock();
            const bool good = read_one();
            mutex_.lock();
            reading_ = false;
            if (!good) break_all();
            continue;
        }
        self.asleep.store(1, std::memory_order_relaxed);
        mutex_.unlock();
        while (self.asleep.load(std::memory_order_acquire) != 0)
            syscall(SYS_futex, &self.asleep, FUTEX_WAIT_PRIVATE, 1, nullptr, nullptr, 0);
        mutex_.lock();
    }
    // Somebody else reads from now on. One that is still sending will see that nobody does when it has sent.
    if (!reading_)
        for (Waiter* other = waiters_; other != nullptr; other = other->next)
            if (other->asleep.load(std::memory_order_relaxed) != 0) {
                wake(*other);
                break;
            }
    return self.status;
}

// By the reader: takes one record and hands it to whom it is for. False: the connection is broken.
bool Connection::read_one() {
    abi::MessageHeader header;
    iovec parts[2] = {{&header, sizeof header}, {incoming_, sizeof incoming_}};
    alignas(cmsghdr) char control[kControlBytes];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    do n = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return false;
    FdList fds;
    take_fds(message, fds);
    if (static_cast<size_t>(n) < sizeof header || header.magic != abi::kMagic || header.status < 0) return false;
    Waiter* waiter = claim(header.request_id);
    if (waiter == nullptr) return false;
    // A daemon of a newer minor version may append fields (cut off here), an older one leaves ours at their defaults.
    std::memcpy(waiter->reply, incoming_, std::min(static_cast<size_t>(n) - sizeof header, waiter->reply_bytes));
    if (header.status == 0 && waiter->arrival != nullptr) waiter->arrival->arrived(fds);
    Guard guard(mutex_);
    answer(*waiter, header.status);
    return true;
}

// The waiter stays where it is until it is answered, or nullptr: nobody asked that.
Connection::Waiter* Connection::claim(uint32_t request_id) {
    Guard guard(mutex_);
    Waiter* waiter = waiters_;
    while (waiter != nullptr && waiter->id != request_id) waiter = waiter->next;
    if (waiter != nullptr) waiter->claimed = true;
    return waiter;
}

// mutex_ is held here and below: without it the waiter could leave before it is woken.
void Connection::answer(Waiter& waiter, int status) {
    waiter.status = status;
    waiter.answered = true;
    remove(waiter);
    wake(waiter);
}

void Connection::wake(Waiter& waiter) {
    if (waiter.asleep.exchange(0, std::memory_order_release) != 0)
        syscall(SYS_futex, &waiter.asleep, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Connection::remove(Waiter& waiter) {
    for (Waiter** at = &waiters_; *at != nullptr; at = &(*at)->next)
        if (*at == &waiter) {
            *at = waiter.next;
            return;
        }
}

void Connection::break_all() {
    give_up();
    while (waiters_ != nullptr) answer(*waiters_, -1);
}

}  // namespace rocemu::provider
