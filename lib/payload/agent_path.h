// SPDX-License-Identifier: BSD-3-Clause
// AgentPath: the daemon's side of abi/agent_ring.h for one space. Cuts operations into jobs, keeps them in order, owns
// the stage, and takes results back. Nothing the other side writes is trusted: `done` is checked as a count, `result`
// read once; the private copy of everything else is used.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "payload/mover.h"

namespace rocemu::payload {

class AgentPath {
  public:
    AgentPath(abi::AgentRing& ring, SpaceStats* stats, stats::CounterBlock& counters);

    // `pieces` are copied; the buffers they name stay until the result came.
    void copy(Direction direction, std::span<const Piece> pieces, uint64_t cookie, Instant now);
    void atomic(bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap, uint64_t cookie, Instant now);

    // Takes finished jobs, submits more, gives up overdue operations. Results in order.
    void poll(Instant now, std::deque<Result>& results);
    // Everything pending ends as GivenUp, and so will all that comes: nothing is submitted any more.
    void abandon(std::deque<Result>& results);
    // Results are owed.
    [[nodiscard]] bool pending() const { return pending_ != 0; }
    // The agent has something to do, be it the rest of what was given up.
    [[nodiscard]] bool busy() const { return pending_ != 0 || taken_ != 0; }
    [[nodiscard]] bool empty() const { return operations_.empty(); }
    // Number of the next operation, and whether the agent is done with all before `number`.
    [[nodiscard]] uint64_t next() const { return first_ + operations_.size(); }
    [[nodiscard]] bool passed(uint64_t number) const;

  private:
    struct Operation {
        uint64_t cookie = 0;
        abi::AgentOp op = abi::AgentOp::Read;
        std::vector<Piece> pieces;
        uint32_t next_piece = 0;   // first one not completely submitted
        uint32_t next_offset = 0;  // bytes of it that are
        uint32_t jobs_out = 0;
        uint32_t taken = 0;  // given up: of them, those that could not be taken back
        uint64_t compare_add = 0, swap = 0, original = 0;
        bool failed = false;
        bool given_up = false;
        bool reported = false;
        uint32_t failed_piece = 0;
        Instant deadline;
        [[nodiscard]] bool submitted() const { return next_piece == pieces.size(); }
    };
    struct Job {
        uint64_t operation = 0;  // number of the operation
        uint32_t piece = 0;
        uint32_t offset = 0;  // into the piece
        uint32_t length = 0;
        uint32_t stage_offset = 0;
        uint64_t stage_end = 0;
        bool cancelled = false;
    };

    void enqueue(Operation operation);
    bool submit_one(Operation& operation, uint64_t number);
    bool stage_alloc(uint32_t length, uint32_t& offset);
    void pump();
    void collect();
    void finish(const Job& job, uint32_t index);
    void give_up(Operation& operation, uint64_t number);
    void report(Operation& operation, std::deque<Result>& results);

    abi::AgentRing& ring_;
    SpaceStats* stats_;
    stats::CounterBlock& counters_;
    std::deque<Operation> operations_;
    uint64_t first_ = 0;  // number of operations_.front()
    size_t pump_at_ = 0;  // index of the first operation that is not submitted completely
    size_t pending_ = 0;  // not reported
    size_t taken_ = 0;    // of all operations
    std::array<Job, abi::kAgentJobs> jobs_{};
    uint32_t submitted_ = 0, done_ = 0;
    uint64_t stage_head_ = 0, stage_tail_ = 0;  // free-running byte positions
    bool broken_ = false;                       // the other side broke the rules, or is gone: nothing is submitted any more
};

}  // namespace rocemu::payload
