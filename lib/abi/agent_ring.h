// SPDX-License-Identifier: BSD-3-Clause
// The agent: a thread of the provider inside the application that copies between application memory and a shared stage
// on behalf of the daemon, where process_vm is refused (another uid, Yama, non-dumpable, container). One ring per
// (session, shard). The daemon is the producer of jobs and owns the stage; the agent executes jobs strictly in order.
// A job is executed once or not at all: the agent does it if it can change `state` from Pending to Taken, the daemon takes
// it back (of a process that has not run for too long) if it can change it to Cancelled. `state` carries the job's number
// too: its place in the ring is used again, and who comes late must see that.
// Nothing in the ring is trusted by the daemon except `done` as a count, range-checked against what it submitted, and
// `result` as one of two values; `state` says what the agent may still do, to the harm of nobody but its own process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rocemu::abi {

inline constexpr uint32_t kAgentJobs = 512;              // power of two
inline constexpr uint32_t kAgentStageBytes = 1u << 20;   // one byte ring; a job's bytes are contiguous in it
inline constexpr uint32_t kAgentMaxJobBytes = 64u << 10;

enum class AgentOp : uint32_t { Read = 0, Write = 1, CompareSwap = 2, FetchAdd = 3 };
enum class AgentResult : uint32_t { Ok = 0, Fault = 1 };
enum class AgentJobState : uint32_t { Pending = 1, Taken = 2, Cancelled = 3 };
constexpr uint32_t agent_job_word(uint32_t number, AgentJobState state) {
    return number << 2 | static_cast<uint32_t>(state);
}

struct AgentJob {
    uint64_t va;            // application memory
    uint32_t length;
    uint32_t stage_offset;  // into the stage
    uint32_t op;            // AgentOp
    uint32_t result;        // AgentResult, written by the agent before `done`
    uint64_t compare_add;
    uint64_t swap;
    uint64_t original;      // atomics: written by the agent
    std::atomic<uint32_t> state;  // agent_job_word(); Pending is stored by the daemon before `submitted`
    uint32_t reserved[3];

    // To Taken by the agent, to Cancelled by the daemon. False: the other one was first.
    bool change_state(uint32_t number, AgentJobState to) {
        uint32_t expected = agent_job_word(number, AgentJobState::Pending);
        return state.compare_exchange_strong(expected, agent_job_word(number, to), std::memory_order_acq_rel);
    }
};
static_assert(sizeof(AgentJob) == 64);

struct AgentRing {
    alignas(64) std::atomic<uint32_t> submitted;  // daemon, release
    alignas(64) std::atomic<uint32_t> done;       // agent, release
    // 1 while the agent sleeps (FUTEX_WAIT on `submitted`, with a timeout); the daemon wakes it after a seq_cst fence.
    std::atomic<uint32_t> sleeping;
    // Set by the daemon to 1 to ask the agent to run (path chosen at hello or after a failed process_vm call).
    alignas(64) std::atomic<uint32_t> wanted;
    alignas(64) AgentJob jobs[kAgentJobs];
    alignas(4096) std::byte stage[kAgentStageBytes];
};

}  // namespace rocemu::abi
