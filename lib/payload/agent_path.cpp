// SPDX-License-Identifier: BSD-3-Clause
// AgentPath: see agent_path.h. Jobs are cut at pieces, so that a fault belongs to one piece; the last 8 bytes of a
// ToSpace operation are a job of their own because jobs, unlike the bytes of one copy, have an order.
#include "payload/agent_path.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace rocemu::payload {
namespace {

constexpr uint32_t kTailBytes = 8;

void futex_wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

AgentPath::AgentPath(abi::AgentRing& ring, SpaceStats* stats, stats::CounterBlock& counters)
    : ring_(ring), stats_(stats), counters_(counters) {
    submitted_ = done_ = 0;
    // The agent starts with its first look at `wanted`; release: after it, the ring is ours to fill.
    ring_.wanted.store(1, std::memory_order_release);
    futex_wake(ring_.wanted);
}

void AgentPath::copy(Direction direction, std::span<const Piece> pieces, uint64_t cookie, Instant now) {
    Operation operation;
    operation.cookie = cookie;
    operation.op = direction == Direction::FromSpace ? abi::AgentOp::Read : abi::AgentOp::Write;
    operation.pieces.assign(pieces.begin(), pieces.end());
    operation.deadline = now + PayloadMover::kJobTimeout;
    enqueue(std::move(operation));
}

void AgentPath::atomic(bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap, uint64_t cookie,
                       Instant now) {
    Operation operation;
    operation.cookie = cookie;
    operation.op = compare_swap ? abi::AgentOp::CompareSwap : abi::AgentOp::FetchAdd;
    operation.pieces.push_back({nullptr, va, 8});
    operation.compare_add = compare_add;
    operation.swap = swap;
    operation.deadline = now + PayloadMover::kJobTimeout;
    enqueue(std::move(operation));
}

void AgentPath::enqueue(Operation operation) {
    operations_.push_back(std::move(operation));
    ++pending_;
    pump();
}

bool AgentPath::stage_alloc(uint32_t length, uint32_t& offset) {
    const auto at = static_cast<uint32_t>(stage_tail_ % abi::kAgentStageBytes);
    const uint32_t skip = at + length > abi::kAgentStageBytes ? abi::kAgentStageBytes - at : 0;
    if (stage_tail_ + skip + length - stage_head_ > abi::kAgentStageBytes) return false;
    stage_tail_ += skip + length;
    offset = static_cast<uint32_t>((stage_tail_ - length) % abi::kAgentStageBytes);
    return true;
}

// Submits the next job of `operation`; false: no room for it now.
bool AgentPath::submit_one(Operation& operation, uint64_t number) {
    if (submitted_ - done_ == abi::kAgentJobs) return false;
    const Piece& piece = operation.pieces[operation.next_piece];
    const bool atomic = operation.op == abi::AgentOp::CompareSwap || operation.op == abi::AgentOp::FetchAdd;
    uint32_t length = std::min(piece.length - operation.next_offset, abi::kAgentMaxJobBytes);
    const bool last_piece = operation.next_piece + 1 == operation.pieces.size();
    const bool reaches_end = operation.next_offset + length == piece.length;
    if (operation.op == abi::AgentOp::Write && last_piece && reaches_end && length > kTailBytes) length -= kTailBytes;

    Job& job = jobs_[submitted_ % abi::kAgentJobs];
    job = {number, operation.next_piece, operation.next_offset, length, 0, stage_tail_, false};
    if (!atomic) {
        if (!stage_alloc(length, job.stage_offset)) return false;
        job.stage_end = stage_tail_;
    }
    abi::AgentJob& shared = ring_.jobs[submitted_ % abi::kAgentJobs];
    shared.va = piece.va + operation.next_offset;
    shared.length = length;
    shared.stage_offset = job.stage_offset;
    shared.op = static_cast<uint32_t>(operation.op);
    shared.result = static_cast<uint32_t>(abi::AgentResult::Fault);
    shared.compare_add = operation.compare_add;
    shared.swap = operation.swap;
    shared.state.store(abi::agent_job_word(submitted_, abi::AgentJobState::Pending), std::memory_order_relaxed);
    if (operation.op == abi::AgentOp::Write)
        std::memcpy(ring_.stage + job.stage_offset, piece.local + operation.next_offset, length);

    operation.next_offset += length;
    if (operation.next_offset == piece.length) {
        ++operation.next_piece;
        operation.next_offset = 0;
    }
    ++operation.jobs_out;
    ++submitted_;
    return true;
}

void AgentPath::pump() {
    if (broken_) return;
    const uint32_t before = submitted_;
    while (pump_at_ < operations_.size()) {
        Operation& operation = operations_[pump_at_];
        while (!operation.submitted() && submit_one(operation, first_ + pump_at_)) {
        }
        if (!operation.submitted()) break;
        ++pump_at_;
    }
    if (submitted_ == before) return;
    // Release: the jobs and stage bytes are visible before the count (partner: the agent's acquire load).
    ring_.submitted.store(submitted_, std::memory_order_release);
    // Pairs with the agent's store to `sleeping`, fence, last look at `submitted`.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (ring_.sleeping.load(std::memory_order_relaxed) != 0) futex_wake(ring_.submitted);
}

void AgentPath::finish(const Job& job, uint32_t index) {
    Operation& operation = operations_[job.operation - first_];
    const abi::AgentJob& shared = ring_.jobs[index];
    const uint32_t result =
        *const_cast<const volatile uint32_t*>(&shared.result);  // once: the other side may change it
    --operation.jobs_out;
    stage_head_ = job.stage_end;
    if (operation.given_up && !job.cancelled) {
        --operation.taken;
        --taken_;
    }
    if (operation.failed || operation.reported) return;
    if (result != static_cast<uint32_t>(abi::AgentResult::Ok)) {
        operation.failed = true;
        operation.failed_piece = job.piece;
        operation.next_piece = static_cast<uint32_t>(operation.pieces.size());  // nothing behind a fault is submitted
        return;
    }
    if (operation.op == abi::AgentOp::Read)
        std::memcpy(operation.pieces[job.piece].local + job.offset, ring_.stage + job.stage_offset, job.length);
    else if (operation.op != abi::AgentOp::Write)
        operation.original = *const_cast<const volatile uint64_t*>(&shared.original);
    counters_.add(stats::Counter::payload_agent_bytes, job.length);
    if (stats_) stats_->agent_bytes.fetch_add(job.length, std::memory_order_relaxed);
}

void AgentPath::collect() {
    // Acquire: results and stage bytes of the jobs counted are visible (partner: the agent's release store).
    const uint32_t done = ring_.done.load(std::memory_order_acquire);
    if (done - done_ > submitted_ - done_) {
        broken_ = true;
        return;
    }
    while (done_ != done) {
        const uint32_t index = done_ % abi::kAgentJobs;
        finish(jobs_[index], index);
        ++done_;
    }
}

// Its jobs stay in the ring until the agent counts them; they are no longer connected to the caller's buffers. Those that
// the agent has not begun it will not do.
void AgentPath::give_up(Operation& operation, uint64_t number) {
    operation.given_up = true;
    operation.next_piece = static_cast<uint32_t>(operation.pieces.size());
    operation.taken = operation.jobs_out;
    for (uint32_t n = done_; n != submitted_; ++n) {
        Job& job = jobs_[n % abi::kAgentJobs];
        if (job.operation != number) continue;
        job.cancelled = ring_.jobs[n % abi::kAgentJobs].change_state(n, abi::AgentJobState::Cancelled);
        if (job.cancelled) --operation.taken;
    }
    taken_ += operation.taken;
}

bool AgentPath::passed(uint64_t number) const {
    const size_t before = number <= first_ ? 0 : std::min<size_t>(number - first_, operations_.size());
    return std::all_of(operations_.begin(), operations_.begin() + static_cast<ptrdiff_t>(before),
                       [](const Operation& o) { return o.reported && o.taken == 0; });
}

void AgentPath::report(Operation& operation, std::deque<Result>& results) {
    if (operation.reported) return;
    operation.reported = true;
    --pending_;
    const bool bad = operation.failed || operation.given_up;
    if (bad) {
        counters_.add(stats::Counter::payload_faults);
        if (stats_) stats_->faults.fetch_add(1, std::memory_order_relaxed);
    }
    const Outcome outcome = operation.given_up ? Outcome::GivenUp : bad ? Outcome::Fault : Outcome::Done;
    results.push_back({operation.cookie, outcome, operation.failed_piece, operation.original});
}

void AgentPath::poll(Instant now, std::deque<Result>& results) {
    if (broken_) return abandon(results);
    collect();
    if (broken_) return abandon(results);
    for (size_t i = 0; i < operations_.size(); ++i) {
        Operation& operation = operations_[i];
        const bool finished = operation.submitted() && operation.jobs_out == 0;
        if (!finished && now < operation.deadline) break;
        if (!finished && !operation.reported) {
            give_up(operation, first_ + i);  // overdue (a stopped process)
        }
        report(operation, results);
    }
    while (!operations_.empty() && operations_.front().reported && operations_.front().jobs_out == 0) {
        operations_.pop_front();
        ++first_;
        if (pump_at_ > 0) --pump_at_;
    }
    pump();
}

void AgentPath::abandon(std::deque<Result>& results) {
    broken_ = true;
    for (Operation& operation : operations_) {
        operation.given_up = true;
        report(operation, results);
    }
    first_ += operations_.size();
    operations_.clear();
    pump_at_ = taken_ = 0;
}

}  // namespace rocemu::payload
