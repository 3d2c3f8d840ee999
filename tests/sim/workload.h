// SPDX-License-Identifier: BSD-3-Clause
// Workload: random messages between two endpoints of which every byte is known. Each message gets its own memory on
// both sides; each completion is checked at the moment it appears: status, length, immediate, and the bytes in place.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "tests/sim/qp_pair.h"

namespace rocemu::sim {

// What an RC QP may ask of its peer.
inline constexpr std::array kRcOperations{WrOpcode::Send,
                                          WrOpcode::SendWithImm,
                                          WrOpcode::SendWithInv,
                                          WrOpcode::RdmaWrite,
                                          WrOpcode::RdmaWriteWithImm,
                                          WrOpcode::RdmaRead,
                                          WrOpcode::AtomicFetchAndAdd,
                                          WrOpcode::AtomicCmpAndSwp,
                                          WrOpcode::AtomicWrite};
[[nodiscard]] constexpr bool is_send(WrOpcode op) {
    return op == WrOpcode::Send || op == WrOpcode::SendWithImm || op == WrOpcode::SendWithInv;
}
// Gives back what it found.
[[nodiscard]] constexpr bool is_atomic(WrOpcode op) {
    return op == WrOpcode::AtomicFetchAndAdd || op == WrOpcode::AtomicCmpAndSwp;
}
[[nodiscard]] constexpr bool has_eight_bytes(WrOpcode op) {
    return is_atomic(op) || op == WrOpcode::AtomicWrite;
}

struct WorkloadOptions {
    uint64_t seed = 1;
    std::vector<WrOpcode> operations{kRcOperations.begin(), kRcOperations.end()};
    uint32_t max_bytes = 20'000;
    uint32_t max_sges = 4;
    double unsignaled = 0.3;
    double fenced = 0.1;
};

// One direction: messages from `from` to `to`.
class Workload {
  public:
    Workload(Endpoint& from, Endpoint& to, const WorkloadOptions& options);

    // Posts one random message (and its receive, if it takes one). False: memory used up.
    bool post();
    bool post(WrOpcode op, uint32_t bytes);
    void post_many(int n) {
        for (int i = 0; i < n && post(); ++i) {
        }
    }
    [[nodiscard]] bool done() const { return completed_ == messages_.size() && received_ == receives_.size(); }
    [[nodiscard]] size_t posted() const { return messages_.size(); }
    std::vector<std::string> errors;
    // Called by the owner of the endpoints for each completion of `from`'s sends and `to`'s receives.
    void on_send(const transport::Completion& c);
    void on_receive(const transport::Completion& c);

  private:
    struct Message {
        WrOpcode op;
        uint32_t bytes = 0;
        uint32_t imm = 0;  // or the window that is invalidated
        std::vector<Sge> local;
        std::vector<Sge> receive;  // where a SEND ends up
        uint64_t remote = 0;
        bool signaled = true;
        uint64_t pattern = 0;
        uint64_t atomic_before = 0;
    };
    [[nodiscard]] std::vector<Sge> carve(Endpoint& e, uint64_t& next, uint32_t bytes, uint32_t extra);
    void fill(Endpoint& e, const std::vector<Sge>& sges, uint64_t pattern);
    [[nodiscard]] bool holds(Endpoint& e, const std::vector<Sge>& sges, uint32_t bytes, uint64_t pattern);
    void fail(const char* what, size_t index);

    Endpoint& from_;
    Endpoint& to_;
    WorkloadOptions options_;
    Random random_;
    std::vector<Message> messages_;
    std::vector<size_t> receives_;  // message number of each receive
    size_t completed_ = 0, received_ = 0;
    uint32_t windows_ = 0;
    uint64_t from_next_, to_next_, from_end_, to_end_;
    uint64_t counter_va_;         // atomics work on it
    uint64_t counter_value_ = 0;  // what it will be when all atomics posted so far have run
};

// A pair with a workload in each direction and everything wired up.
struct Traffic {
    Traffic(QpPair& pair, const WorkloadOptions& options);
    [[nodiscard]] bool done() const { return forward.done() && backward.done(); }
    [[nodiscard]] bool clean() const { return forward.errors.empty() && backward.errors.empty() && pair.healthy(); }
    [[nodiscard]] std::string first_error() const;

    QpPair& pair;
    Workload forward, backward;
};

}  // namespace rocemu::sim
