// SPDX-License-Identifier: BSD-3-Clause
// EventOutbox: see event_outbox.h. An application that closed its end just gets nothing more.
#include "control/event_outbox.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rocemu::control {

bool EventOutbox::accepts(int fd) {
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
    size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && domain == AF_UNIX && type == SOCK_SEQPACKET;
}

EventOutbox::~EventOutbox() {
    if (watching_) loop_.remove(fd_.get());
}

// False: no room now.
bool EventOutbox::send_now(std::span<const std::byte> record) {
    for (;;) {
        if (::send(fd_.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
        if (errno == EINTR) continue;
        return errno != EAGAIN && errno != ENOBUFS;
    }
}

void EventOutbox::post(std::span<const std::byte> record, bool merge) {
    if (pending_.empty() && send_now(record)) return;
    if (merge && std::any_of(pending_.begin(), pending_.end(), [&](const auto& r) {
            return std::equal(r.begin(), r.end(), record.begin(), record.end());
        }))
        return;
    if (pending_.size() >= kMaxPending) return;
    pending_.emplace_back(record.begin(), record.end());
    if (!watching_) watching_ = loop_.add(fd_.get(), EPOLLOUT, [this](uint32_t) { flush(); });
}

void EventOutbox::forget(uint64_t cookie) {
    std::erase_if(pending_, [cookie](const std::vector<std::byte>& record) {
        return record.size() >= sizeof cookie && std::memcmp(record.data(), &cookie, sizeof cookie) == 0;
    });
}

void EventOutbox::flush() {
    while (!pending_.empty() && send_now(pending_.front())) pending_.pop_front();
    if (!pending_.empty()) return;
    loop_.remove(fd_.get());
    watching_ = false;
}

}  // namespace rocemu::control
