// SPDX-License-Identifier: BSD-3-Clause
// PayloadMover: reaches application memory. One per shard; owner only. A job copies between local buffers of the daemon
// (frames) and one address space; it may finish at once (process_vm) or later (agent), in order per space.
// See docs/architecture.md, payload paths.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/agent_ring.h"
#include "abi/receive_stage.h"
#include "base/time.h"
#include "memory/key_table.h"
#include "stats/counters.h"

namespace rocemu::payload {

class AtomicLocks;

enum class Path : uint8_t { None, ProcessVm, Agent };

// For `rocemu status`: one per (space, shard), owned by control, written by the shard with relaxed stores.
struct SpaceStats {
    std::atomic<uint64_t> process_vm_bytes{0}, agent_bytes{0}, captured_bytes{0}, mapped_bytes{0}, deferred_bytes{0},
        faults{0};
    std::atomic<Path> path{Path::None};  // in use now: a refused process_vm call changes it to Agent
};

// What control tells a shard about an attached process.
struct SpaceInfo {
    memory::SpaceId id = 0;
    int pid = 0;
    Path path = Path::None;
    abi::AgentRing* agent = nullptr;  // this shard's ring in the session's region, or nullptr
    abi::ReceiveStage* receive_stage = nullptr;  // this shard's; nullptr: nothing is deferred
    SpaceStats* stats = nullptr;      // outlives the space; may be nullptr
};

struct Piece {
    std::byte* local;  // in the daemon
    uint64_t va;       // in the space
    uint32_t length;   // bytes, > 0
    uint32_t key = 0;  // a mapping of the space that holds it (map()), or 0
};

// The work request whose payload a deferred piece is.
struct Origin {
    uint32_t qpn = 0;
    uint32_t qp_slot = 0;
    uint32_t wqe_index = 0;
    bool is_recv = false;
    bool operator==(const Origin&) const = default;
};

enum class Direction : uint8_t { FromSpace, ToSpace };

enum class Outcome : uint8_t {
    Done,
    Fault,    // memory that may not be reached so
    Pending,
    GivenUp,  // the process did not answer in time, or is gone: what is tried next would end the same way
};

struct Result {
    uint64_t cookie;
    Outcome outcome;        // not Pending
    uint32_t failed_piece;  // Fault: first piece that failed; the ones before it are complete
    uint64_t original;      // atomics
};

class PayloadMover {
  public:
    // `locks`: of all movers whose spaces have memory in common; nullptr: there is no other.
    explicit PayloadMover(stats::CounterBlock& counters, AtomicLocks* locks = nullptr);
    ~PayloadMover();

    void add_space(const SpaceInfo& info);
    // The process is gone: jobs still pending for it end as GivenUp (delivered by poll), new ones are faults at once, and
    // nothing is left that a fence would wait for.
    void abandon(memory::SpaceId id);
    // Likewise; the space is forgotten.
    void remove_space(memory::SpaceId id);

    // Memory of the space that the daemon has mapped too, at `local`: pieces with this key are copied directly. It may be
    // a file that is truncated at any time: copies are guarded. The space exists; unmap before the mapping goes away.
    void map(memory::SpaceId space, uint32_t key, std::byte* local, uint64_t va, uint64_t length);
    void unmap(memory::SpaceId space, uint32_t key);

    // Adjacent pieces (va contiguous) become one remote range; the last 8 bytes of a ToSpace job are stored last, by
    // themselves. `pieces` may be reused after return; the local buffers must stay until the job has ended.
    // Pending: the result comes by poll(), with `cookie`.
    Outcome copy(memory::SpaceId space, Direction direction, std::span<const Piece> pieces, uint64_t cookie,
                 Instant now, Result& result);
    // A ToSpace copy of one piece that is mapped, if it can be made at once. False: it cannot, or failed on the way; copy()
    // does it, or tells why not. `ends_write`: its last 8 bytes are stored last, by themselves.
    bool place(memory::SpaceId space, const Piece& piece, bool ends_write);
    // Calls read(argument, where the piece lies) if it is mapped and may be read at once. False: it may not, or some of it is
    // not there; copy() does it, or tells why not. `read` runs guarded (guard::run).
    bool read(memory::SpaceId space, const Piece& piece, void (*read)(void* argument, const std::byte* from), void* argument);
    // Pieces that the process itself places before it can learn of them (abi/receive_stage.h); done for the caller. One
    // origin a piece. False: they must be copied; nothing has happened.
    bool defer(memory::SpaceId space, std::span<const Piece> pieces, std::span<const Origin> origins);
    // Deferred work whose memory, in this space, turned out not to be there, each once. False: none. The QP may be
    // gone, and its number another one's.
    bool take_deferred_fault(memory::SpaceId& space, Origin& origin);
    // 8-byte aligned address. Executed by this shard (process_vm) or by the application's CPU (agent).
    Outcome atomic(memory::SpaceId space, bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap,
                   uint64_t cookie, Instant now, Result& result);

    // Results of pending jobs, in order per space; jobs older than kJobTimeout end as GivenUp.
    size_t poll(Instant now, std::span<Result> results);
    [[nodiscard]] bool idle() const;  // no result is owed

    // For deregistration: passed(space, fence(space)) becomes true when every job submitted before the fence has ended,
    // so that nothing is copied afterwards. (Of a job that was given up while the process did not run a part may be under
    // way there: it ends when the process goes on.) Unknown spaces have passed everything.
    [[nodiscard]] uint64_t fence(memory::SpaceId space) const;
    [[nodiscard]] bool passed(memory::SpaceId space, uint64_t fence) const;

    static constexpr Duration kJobTimeout = 2 * kSecond;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::payload
