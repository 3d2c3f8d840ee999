// SPDX-License-Identifier: BSD-3-Clause
// Channel: the TCP connection over which the two processes of the interoperation program agree on each case. Both run
// on the same architecture: structures travel as they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace interop {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Channel {
  public:
    static Channel connect(const std::string& address, uint16_t port);
    Channel(Channel&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Channel(const Channel&) = delete;
    ~Channel();

    void send(const void* data, size_t size);
    void receive(void* data, size_t size);
    // Whether something has arrived (or the peer is gone).
    [[nodiscard]] bool readable() const;
    // Whether the other process has ended.
    [[nodiscard]] bool gone() const;

    void send_text(const std::string& text);
    std::string receive_text();
    template <typename T>
    T exchange(const T& mine) {
        static_assert(std::is_trivially_copyable_v<T>);
        send(&mine, sizeof mine);
        T theirs;
        receive(&theirs, sizeof theirs);
        return theirs;
    }
    void barrier() { (void)exchange(uint8_t{1}); }

  private:
    friend class Listener;
    explicit Channel(int fd) : fd_(fd) {}
    int fd_;
};

class Listener {
  public:
    explicit Listener(uint16_t port);
    ~Listener();
    Listener(const Listener&) = delete;
    Channel accept();

  private:
    int fd_;
};

}  // namespace interop
