// SPDX-License-Identifier: BSD-3-Clause
// EventOutbox: the daemon's end of a socket on which an application reads events (completion channel, asynchronous
// events of a context). Never waits: a socket holds about 280 small records, what does not fit is kept here and sent
// when there is room.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "control/event_loop.h"

namespace rocemu::control {

class EventOutbox {
  public:
    static constexpr size_t kMaxPending = 65536;

    // True if fd is a SOCK_SEQPACKET UNIX socket, the only thing we send to.
    static bool accepts(int fd);

    EventOutbox(EventLoop& loop, UniqueFd fd) : loop_(loop), fd_(std::move(fd)) {}
    ~EventOutbox();
    EventOutbox(const EventOutbox&) = delete;
    EventOutbox& operator=(const EventOutbox&) = delete;

    // merge: a record that already waits is not added again (a CQ cannot have two events that nobody has read: it must
    // be armed again in between).
    void post(std::span<const std::byte> record, bool merge);
    // The records of an object that is gone, which begin with its cookie: those that wait here are never sent. The program
    // cannot look behind what it has not read.
    void forget(uint64_t cookie);

  private:
    bool send_now(std::span<const std::byte> record);
    void flush();

    EventLoop& loop_;
    UniqueFd fd_;
    std::deque<std::vector<std::byte>> pending_;
    bool watching_ = false;
};

}  // namespace rocemu::control
