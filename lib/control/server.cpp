// SPDX-License-Identifier: BSD-3-Clause
// Server: see server.h.
#include "control/server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "abi/socket_path.h"
#include "control/captures.h"
#include "control/dispatch.h"
#include "control/log.h"
#include "control/teardown.h"

namespace rocemu::control {
namespace {

constexpr Duration kTick = 100 * kMillisecond;
constexpr size_t kToolSessions = 64;

void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Server::Server(const config::Config& config, EventLoop& loop, Listener& listener, std::vector<engine::Shard*> shards,
               std::vector<std::unique_ptr<Device>> devices, fabric::Switch* fabric)
    : loop_(loop),
      listener_(listener),
      control_(config, loop, std::move(shards), std::move(devices), fabric),
      view_(control_, abi::view_directory(listener.path())),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    raise_descriptor_limit();
    loop_.add(listener_.fd(), EPOLLIN, [this](uint32_t) { accept_all(); });
    loop_.every(kTick, [this] { control_.tick(); });
    loop_.every(kSecond, [this] { view_.refresh(); });
}

Server::~Server() {
    loop_.remove(listener_.fd());
}

void Server::accept_all() {
    for (int i = 0; i < 64; ++i) {
        const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(UniqueFd(fd));
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EMFILE || errno == ENFILE) {
            // Without this the listener would stay readable and the loop would spin.
            spare_.reset();
            UniqueFd(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
            spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            log::warn("no descriptors left: a connection was refused");
        }
        return;
    }
}

void Server::accept_one(UniqueFd fd) {
    Peer peer;
    if (!Peer::of(fd.get(), peer)) return;
    // hello says no to programs above the limit; tools have room besides.
    if (control_.sessions.size() >= static_cast<size_t>(control_.config.limits.max_sessions) + kToolSessions) {
        log::warn("too many connections: pid {} refused", peer.pid);
        return;
    }
    const auto id = control_.session_ids.take();
    if (!id) return;
    auto session = std::make_shared<Session>(loop_, std::move(fd), std::move(peer));
    session->id = *id;
    control_.sessions.emplace(*id, session);
    const std::weak_ptr<Session> weak = session;
    session->start(
        [this, weak](const abi::MessageHeader& header, std::span<const std::byte> body, Session::Fds fds) {
            if (const auto s = weak.lock(); s && !s->ending) dispatch(control_, s, header, body, std::move(fds));
        },
        [this, weak] {
            if (const auto s = weak.lock()) end_session(control_, s);
        });
}

void Server::shut_down(Duration limit) {
    loop_.remove(listener_.fd());
    std::vector<std::shared_ptr<Session>> list;
    for (const auto& [id, session] : control_.sessions) list.push_back(session);
    for (const auto& session : list) end_session(control_, session);
    list.clear();
    const Instant end = EventLoop::now() + limit;
    while ((!control_.sessions.empty() || control_.shards.in_flight() > 0) && EventLoop::now() < end)
        loop_.turn(10 * kMillisecond);
}

}  // namespace rocemu::control
