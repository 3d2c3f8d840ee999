// SPDX-License-Identifier: BSD-3-Clause
// One end of a queue pair of check_bytes: requester of its own plan and responder of the peer's, at the same time. The
// ends tell each other by two counters in shared memory which slots are ready and which messages are done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "check_bytes_plan.h"

namespace check_bytes {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What one end says to the other, in memory that both map.
struct Announcement {
    std::atomic<uint32_t> ready{0};      // 1: the fields below are filled; 2: the QP is connected
    uint32_t qpn = 0;
    uint32_t psn = 0;
    uint32_t mtu = 0;
    uint32_t max_inline = 0;
    ibv_gid gid{};
    uint64_t in_address = 0;
    uint32_t in_rkey = 0;
    std::atomic<uint32_t> prepared{0};   // as responder: messages the peer may post
    std::atomic<uint32_t> completed{0};  // as requester: messages that were completed and checked
};

// An opened device, with what all ends on it share.
class Nic {
  public:
    explicit Nic(const std::string& name);
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_port_attr port{};
    ibv_gid gid{};
    int gid_index = -1;
};

// Memory of a program: ordinary, or a shared mapping of a memfd whose descriptor stays open.
class Buffer {
  public:
    Buffer(size_t bytes, bool shared);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    [[nodiscard]] std::byte* get() const { return base_; }

  private:
    std::byte* base_;
    size_t bytes_;
    int fd_ = -1;
};

class End {
  public:
    // `shared`: what is sent and received lies in files in memory.
    End(Nic& nic, Announcement& mine, Announcement& peers, uint32_t psn, bool shared);

    [[nodiscard]] uint32_t qpn() const { return qp_->qp_num; }
    void connect();
    void set_plans(std::vector<Message> mine, std::vector<Message> peers);
    void prepare_first();
    // Posts and retires what can be. True if there was something.
    bool step();
    void handle(const ibv_wc& wc);
    [[nodiscard]] bool done() const { return mine_.completed == plan_.size() && retired_ == peer_plan_.size(); }
    [[nodiscard]] uint64_t bytes_checked() const { return bytes_checked_; }
    [[nodiscard]] std::string progress() const;

  private:
    [[nodiscard]] std::byte* out_slot(uint32_t m) const { return out_.get() + size_t{m % kWindow} * kSlotBytes; }
    [[nodiscard]] std::byte* in_slot(uint32_t m) const { return in_.get() + size_t{m % kWindow} * kSlotBytes; }
    void post(uint32_t m);
    void prepare(uint32_t m);
    bool retire_next();
    void check(const Message& m, const std::vector<Piece>& pieces, const std::byte* slot, const char* what, uint32_t i);

    Nic& nic_;
    Announcement& mine_;
    Announcement& peers_;
    Buffer out_, in_;
    std::unique_ptr<std::byte[]> expected_;
    ibv_mr* out_mr_ = nullptr;
    ibv_mr* in_mr_ = nullptr;
    ibv_qp* qp_ = nullptr;
    std::vector<Message> plan_, peer_plan_;
    uint32_t posted_ = 0;
    uint32_t received_ = 0;  // messages of the peer that have arrived: all up to the last receive completion
    uint32_t retired_ = 0;   // messages of the peer whose slot is free again
    uint64_t bytes_checked_ = 0;
};

}  // namespace check_bytes
