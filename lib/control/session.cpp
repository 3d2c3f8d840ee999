// SPDX-License-Identifier: BSD-3-Clause
// Session: the socket half. Records are whole (SOCK_SEQPACKET), so a request is one recvmsg. A client that does not
// read its replies, or asks without waiting, is not read from until that has changed; it holds up nobody else.
#include "control/session.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rocemu::control {
namespace {

constexpr int kReadsPerTurn = 16;
constexpr size_t kMaxFds = 64;

std::vector<UniqueFd> take_fds(msghdr& message) {
    std::vector<UniqueFd> fds;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            fds.emplace_back(fd);
        }
    }
    return fds;
}

}  // namespace

Session::Session(EventLoop& loop, UniqueFd fd, Peer p) : peer(std::move(p)), loop_(loop), fd_(std::move(fd)) {}

Session::~Session() {
    close();
}

void Session::start(RequestHandler on_request, std::function<void()> on_end) {
    on_request_ = std::move(on_request);
    on_end_ = std::move(on_end);
    interest_ = EPOLLIN;
    loop_.add(fd_.get(), interest_, [this](uint32_t events) { handle_events(events); });
    if (peer.pidfd) loop_.add(peer.pidfd.get(), EPOLLIN, [this](uint32_t) { on_end_(); });
}

void Session::close() {
    if (!fd_) return;
    loop_.remove(fd_.get());
    fd_.reset();
    if (peer.pidfd) loop_.remove(peer.pidfd.get());
    outgoing_.clear();
}

std::string Session::name() const {
    return "session " + std::to_string(id) + " (" + peer.command + ", pid " + std::to_string(peer.pid) + ")";
}

void Session::handle_events(uint32_t events) {
    if (events & EPOLLOUT) flush();
    if (!closed() && (events & EPOLLIN)) read_requests();
    // A hang-up with data left to read comes again after it was read.
    if (!closed() && (events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN)) on_end_();
}

void Session::read_requests() {
    for (int i = 0; i < kReadsPerTurn && !closed() && (interest_ & EPOLLIN); ++i)
        if (!read_one()) return;
}

// False: nothing more to read now.
bool Session::read_one() {
    alignas(16) std::array<std::byte, abi::kMaxMessageBytes> buffer;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control;
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    Fds fds;
    if (n >= 0) fds = {take_fds(message), (message.msg_flags & MSG_CTRUNC) != 0};
    abi::MessageHeader header;
    const bool whole = n >= static_cast<ssize_t>(sizeof header) && !(message.msg_flags & MSG_TRUNC);
    if (whole) std::memcpy(&header, buffer.data(), sizeof header);
    if (!whole || header.magic != abi::kMagic) {
        on_end_();  // end of file, or a stranger
        return false;
    }
    on_request_(header, {buffer.data() + sizeof header, static_cast<size_t>(n) - sizeof header}, std::move(fds));
    return true;
}

// False: the socket is full.
bool Session::send_now(const Outgoing& record) {
    iovec part{const_cast<std::byte*>(record.bytes.data()), record.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
    if (!record.fds.empty()) {
        const size_t bytes = record.fds.size() * sizeof(int);
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(bytes);
        cmsghdr* c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(bytes);
        for (size_t i = 0; i < record.fds.size(); ++i) {
            const int fd = record.fds[i].get();
            std::memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof fd);
        }
    }
    for (;;) {
        if (sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
        if (errno == EINTR) continue;
        // ETOOMANYREFS: descriptors in flight that nobody takes. Any other error: the peer is gone, EPOLLHUP follows.
        return errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS;
    }
}

void Session::send(const abi::MessageHeader& header, std::span<const std::byte> body, std::vector<UniqueFd> fds) {
    if (closed()) return;
    Outgoing record;
    record.bytes.resize(sizeof header + body.size());
    std::memcpy(record.bytes.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(record.bytes.data() + sizeof header, body.data(), body.size());
    record.fds = std::move(fds);
    if (outgoing_.empty() && send_now(record)) return;
    outgoing_.push_back(std::move(record));
    update_interest();
}

void Session::flush() {
    while (!outgoing_.empty() && send_now(outgoing_.front())) outgoing_.pop_front();
    update_interest();
}

void Session::update_interest() {
    if (closed()) return;
    uint32_t want = 0;
    if (!outgoing_.empty())
        want |= EPOLLOUT;
    else if (in_flight_ < kMaxInFlight && closing_ == 0)
        want |= EPOLLIN;
    if (want == interest_) return;
    interest_ = want;
    loop_.modify(fd_.get(), want);
}

void Session::forget_events(uint32_t context, uint64_t cookie) {
    const auto it = contexts.find(context);
    if (it != contexts.end() && it->second.events) it->second.events->forget(cookie);
}

void Session::request_ends() {
    --in_flight_;
    update_interest();
}

void Session::closing_begins() {
    ++closing_;
    update_interest();
}

void Session::closing_ends() {
    --closing_;
    update_interest();
}

void Session::call_ends() {
    if (--calls_ != 0 || when_idle_.empty()) return;
    auto list = std::move(when_idle_);
    when_idle_.clear();
    for (auto& what : list) what();
}

void Session::when_idle(std::function<void()> what) {
    if (calls_ == 0) return what();
    when_idle_.push_back(std::move(what));
}

}  // namespace rocemu::control
