// SPDX-License-Identifier: BSD-3-Clause
// Connection: the control socket to the daemon: requests and their replies, with file descriptors both ways.
// Thread-safe: threads have requests under way at the same time, and the daemon answers in any order. One of those that
// wait reads the socket for all; when it has its own reply another one goes on reading.
// Used by the provider and by the command line; knows no verbs. Read lib/abi/messages.h.
#pragma once

#include <atomic>
#include <cstddef>
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

// What there is to do with a reply before the next one may be looked at, whoever reads them: replies lean on those before
// them. Called for a status of 0 only, by any thread that waits for a reply.
class Arrival {
  public:
    virtual void arrived(FdList& fds) = 0;

  protected:
    ~Arrival() = default;
};

// Just keeps the descriptors.
class KeepFds final : public Arrival {
  public:
    explicit KeepFds(FdList& to) : to_(to) {}
    void arrived(FdList& fds) override { fds.move_to(to_); }

  private:
    FdList& to_;
};

class Connection {
  public:
    Connection() = default;
    ~Connection() { disconnect(); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // 0 or an errno value; EPERM: what listens in a directory that anybody may make is somebody else's. An exchange that
    // takes longer than `timeout_ms` fails with ETIMEDOUT; 0: no limit.
    int connect(const char* path, uint32_t timeout_ms);
    void set_timeout(uint32_t timeout_ms);
    void disconnect();
    // Nothing more goes over it: the daemon sees the end of this process's session and lets go of what it owns. Any thread;
    // the descriptor stays open, others may be using it.
    void give_up();
    // Child of a fork only: it is the parent's. A thread that was in a call (a signal handler forked) gets EIO.
    void forget();

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
             Arrival* arrival = nullptr) {
        return exchange(MessageTraits<Request>::kType, &request, sizeof request, {&reply, sizeof reply, arrival}, send_fds);
    }

  private:
    // A request under way, on the stack of its thread; in the list from before it is sent until it is answered. All but what
    // the call brought is guarded by mutex_.
    struct Waiter {
        void* reply;
        size_t reply_bytes;
        Arrival* arrival;
        uint32_t id = 0;
        int status = 0;  // -1: the connection broke
        bool answered = false;
        bool claimed = false;             // the reader has its reply in hand
        std::atomic<uint32_t> asleep{0};  // futex: 1 while its thread sleeps, or is about to
        Waiter* next = nullptr;
    };

    int exchange(abi::MessageType type, const void* request, size_t request_bytes, Waiter self, std::span<const int> send_fds);
    int send_record(const abi::MessageHeader& header, const void* request, size_t bytes, std::span<const int> fds);
    int withdraw(Waiter& self, int error);
    int await(Waiter& self);
    bool read_one();
    Waiter* claim(uint32_t request_id);
    void answer(Waiter& waiter, int status);
    void remove(Waiter& waiter);
    void break_all();
    static void wake(Waiter& waiter);

    Mutex mutex_;
    Waiter* waiters_ = nullptr;
    bool reading_ = false;  // a thread has the reader's role
    int fd_ = -1;
    pid_t daemon_pid_ = 0;
    uint32_t next_id_ = 1;
    std::atomic<bool> broken_{false};
    alignas(16) std::byte incoming_[abi::kMaxMessageBytes];  // the reader's
    static thread_local Waiter* here_;  // the request of this thread
};

}  // namespace rocemu::provider
