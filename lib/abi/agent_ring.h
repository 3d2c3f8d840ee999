// SPDX-License-Identifier: BSD-3-Clause
// The agent: a thread of the provider inside the application that copies between application memory and a shared stage
// on behalf of the daemon, where process_vm is refused (another uid, Yama, non-dumpable, container). One ring per
// (session, shard). The daemon is the producer of jobs and owns the stage; the agent executes jobs strictly in order.
// Nothing in the ring is trusted by the daemon except `done` as a count, range-checked against what it submitted, and
// `result` as one of two values.
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

struct AgentJob {
    uint64_t va;            // application memory
    uint32_t length;
    uint32_t stage_offset;  // into the stage
    uint32_t op;            // AgentOp
    uint32_t result;        // AgentResult, written by the agent before `done`
    uint64_t compare_add;
    uint64_t swap;
    uint64_t original;      // atomics: written by the agent
    uint64_t reserved[2];
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
