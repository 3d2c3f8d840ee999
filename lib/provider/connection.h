// SPDX-License-Identifier: BSD-3-Clause
// Connection: the control socket to the daemon: requests and their replies, with file descriptors both ways.
// Thread-safe: one exchange at a time. Used by the provider and by the command line; knows no verbs.
// Read lib/abi/messages.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include <sys/types.h>

#include "abi/messages.h"
#include "provider/fd_list.h"
#include "provider/mutex.h"

namespace rocemu::provider {

template <typename Request>
struct MessageTraits;
#define MESSAGE(name, number)                                               \
    template <>                                                             \
    struct MessageTraits<abi::name##Request> {                              \
        using Reply = abi::name##Reply;                                     \
        static constexpr abi::MessageType kType = abi::MessageType::name;   \
    };
#include "abi/messages.def"
#undef MESSAGE

// What a failed hello is about, for one clear line to the user.
enum class HelloFailure { None, NoDaemon, Refused, Version, Protocol };

class Connection {
  public:
    Connection() = default;
    ~Connection() { disconnect(); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // 0 or an errno value. An exchange that takes longer than `timeout_ms` fails with ETIMEDOUT; 0: no limit.
    int connect(const char* path, uint32_t timeout_ms);
    void set_timeout(uint32_t timeout_ms);
    void disconnect();
    // Nothing more goes over it: the daemon sees the end of this process's session and lets go of what it owns. Any thread;
    // the descriptor stays open, others may be using it.
    void give_up();

    // Sends hello and checks the version of the answer. `received` gets region 0 and the eventfds (not for tools).
    // The errno value goes to *error.
    HelloFailure hello(bool admin, uint64_t features, abi::HelloReply& reply, FdList& received, int* error);

    [[nodiscard]] int fd() const { return fd_; }
    // The daemon's process, 0 if it is not visible from here (another pid namespace).
    [[nodiscard]] pid_t daemon_pid() const { return daemon_pid_; }
    // True once the daemon is gone or spoke nonsense: nothing works any more.
    [[nodiscard]] bool broken() const { return broken_.load(std::memory_order_relaxed); }

    // 0, the daemon's errno value, EIO when the connection is broken (then and afterwards), or EBADF or ETOOMANYREFS when
    // `send_fds` cannot be sent.
    template <typename Request>
    int call(const Request& request, typename MessageTraits<Request>::Reply& reply, std::span<const int> send_fds = {},
             FdList* received = nullptr) {
        return exchange(MessageTraits<Request>::kType, &request, sizeof request, &reply, sizeof reply, send_fds,
                        received);
    }

  private:
    int exchange(abi::MessageType type, const void* request, size_t request_bytes, void* reply, size_t reply_bytes,
                 std::span<const int> send_fds, FdList* received);
    int send_record(const abi::MessageHeader& header, const void* request, size_t bytes, std::span<const int> fds);
    int receive_record(uint32_t request_id, void* reply, size_t bytes, FdList* received);

    Mutex mutex_;
    int fd_ = -1;
    pid_t daemon_pid_ = 0;
    uint32_t next_id_ = 1;
    std::atomic<bool> broken_{false};
};

}  // namespace rocemu::provider
