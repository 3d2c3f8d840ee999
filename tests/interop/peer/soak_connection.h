// SPDX-License-Identifier: BSD-3-Clause
// One connection of the soak: requester of its own plan and responder of the peer's. Each completion must be the next
// one, each byte what the plan says, and an atomic must have been added exactly once.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "channel.h"
#include "device.h"
#include "soak_plan.h"

namespace interop::soak {

struct Address {
    ibv_gid gid{};
    uint32_t qpn = 0, psn = 0, rkey = 0;
    uint64_t slots = 0, source = 0, counter = 0;
};

// What all connections share.
struct Common {
    Device& device;
    uint32_t side;  // 0: driver
    int gid_index;
    ibv_pd* pd;
    ibv_cq* cq;
    ibv_mr* mr;
    uint64_t readable = 0;  // address of what READs find
    ibv_gid gid{};
};

class Connection {
  public:
    // Bytes of memory that one connection uses.
    static constexpr size_t kMemory = size_t{kMaxSize} * (kSlots + kReceives + 2 * kWindow) + 64;
    Connection(Common& common, uint32_t index, std::byte* memory);
    ~Connection();
    Connection(const Connection&) = delete;

    [[nodiscard]] uint32_t qpn() const { return qp_->qp_num; }
    [[nodiscard]] Address address() const;
    void connect(const Address& peer);
    [[nodiscard]] bool may_post() const { return posted_ - completed_ < kWindow; }
    void post();
    void handle(const ibv_wc& wc);

    [[nodiscard]] bool idle() const { return posted_ == completed_; }
    [[nodiscard]] uint64_t posted() const { return posted_; }
    [[nodiscard]] uint64_t with_receive() const { return out_receives_; }
    [[nodiscard]] uint64_t received() const { return received_; }
    [[nodiscard]] uint64_t bytes_checked() const { return bytes_; }

  private:
    [[noreturn]] void fail(const std::string& what) const;
    void post_receive(uint32_t buffer);
    void handle_send(const ibv_wc& wc);
    void handle_receive(const ibv_wc& wc);
    template <typename Expected>
    void check(const std::byte* at, uint32_t size, Expected expected, const char* what);

    Common& c_;
    uint32_t index_;
    std::byte *slots_, *receives_, *out_, *results_;
    uint64_t* counter_;
    ibv_qp* qp_ = nullptr;
    Address peer_;
    uint64_t posted_ = 0, completed_ = 0;
    uint64_t out_receives_ = 0;                // our messages that take a receive
    uint64_t added_ = 0;                       // our FETCH_ADDs that completed
    uint64_t peer_number_ = 0, received_ = 0;  // the peer's messages: in its plan; those that took a receive
    uint64_t bytes_ = 0;
};

}  // namespace interop::soak
