// SPDX-License-Identifier: BSD-3-Clause
// PayloadMover: chooses the path of a job and keeps the results of those that finish later. A space begins with the
// path found by the probe at hello; the first refused process_vm call moves it to the agent for good (a process can
// make itself non-dumpable at any time).
// Nothing overtakes what was deferred: it is settled before anything else is done in that space. Where the program is
// placing it at that moment, the job waits for poll().
#include "payload/mover.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi/null_region.h"
#include "guard/fault_guard.h"
#include "payload/agent_path.h"
#include "payload/atomic_locks.h"
#include "payload/deferred_stage.h"
#include "payload/mappings.h"
#include "payload/process_vm.h"

namespace rocemu::payload {

using stats::Counter;

namespace {

// A copy or an atomic that waits until what was deferred before it is in its place.
struct WaitingJob {
    bool atomic = false;
    Direction direction = Direction::ToSpace;
    std::vector<Piece> pieces;
    bool compare_swap = false;
    uint64_t va = 0, compare_add = 0, swap = 0;
    uint64_t cookie = 0;
    Instant deadline;
};

struct Space {
    SpaceInfo info;
    std::unique_ptr<AgentPath> agent;
    Mappings mappings;
    std::unique_ptr<DeferredStage> deferred;
    std::deque<WaitingJob> waiting;
    uint64_t moved_bytes = 0;  // by place() and read(), not counted yet
};

constexpr uint32_t kTailBytes = 8;

// A19: an ATOMIC WRITE must not fall between the read and the write of another atomic. (Who looks like one may too.)
bool is_word(const Piece& piece) { return piece.length == 8 && piece.va % 8 == 0; }

// Ascending; the last 8 bytes of the last piece by themselves, after all others.
bool copy_piece(Direction direction, const Piece& piece, std::byte* theirs, bool last) {
    if (direction == Direction::FromSpace) return guard::copy(piece.local, theirs, piece.length);
    const uint32_t tail = last && piece.length > kTailBytes ? kTailBytes : 0;
    const uint32_t body = piece.length - tail;
    return guard::copy(theirs, piece.local, body) && guard::copy(theirs + body, piece.local + body, tail);
}

}  // namespace

struct PayloadMover::Impl {
    Impl(stats::CounterBlock& c, AtomicLocks* l) : counters(c), locks(l) {}

    stats::CounterBlock& counters;
    AtomicLocks* locks;
    std::unordered_map<memory::SpaceId, Space> spaces;
    Space* last = nullptr;  // what find() found
    std::deque<Result> results;

    void use_agent(Space& space) {
        space.info.path = Path::Agent;
        if (space.info.stats) space.info.stats->path.store(Path::Agent, std::memory_order_relaxed);
        if (!space.agent) space.agent = std::make_unique<AgentPath>(*space.info.agent, space.info.stats, counters);
    }

    void count_fault(Space* space) {
        counters.add(Counter::payload_faults);
        if (space && space->info.stats) space->info.stats->faults.fetch_add(1, std::memory_order_relaxed);
    }

    Outcome fault(Space* space, uint64_t cookie, uint32_t piece, Result& result) {
        count_fault(space);
        result = {cookie, Outcome::Fault, piece, 0};
        return Outcome::Fault;
    }

    // Outcome::Pending: not all of it is mapped, go another way.
    Outcome copy_mapped(Space& space, Direction direction, std::span<const Piece> pieces, uint64_t cookie, Result& result) {
        if (space.mappings.empty()) return Outcome::Pending;
        // What the agent has not done yet stays in front, and what was deferred, which it places before it does anything.
        if (space.info.path == Path::Agent) {
            if (space.agent && space.agent->busy()) return Outcome::Pending;
            if (space.deferred && !space.deferred->empty()) return Outcome::Pending;
        }
        for (const Piece& piece : pieces)
            if (space.mappings.find(piece) == nullptr) return Outcome::Pending;
        uint64_t bytes = 0;
        for (size_t i = 0; i < pieces.size(); ++i) {
            const Piece& piece = pieces[i];
            std::byte* theirs = space.mappings.find(piece);
            if (!copy_piece(direction, piece, theirs, i + 1 == pieces.size()))
                return fault(&space, cookie, static_cast<uint32_t>(i), result);
            bytes += piece.length;
        }
        count_mapped(space, bytes);
        result = {cookie, Outcome::Done, 0, 0};
        return Outcome::Done;
    }

    // False: the space must go on with the agent.
    bool pull(Space& space, Direction direction, std::span<const Piece> pieces, VmOutcome& outcome) {
        outcome = process_vm_copy(space.info.pid, direction, pieces);
        counters.add(Counter::payload_process_vm_calls, outcome.calls);
        counters.add(Counter::payload_process_vm_bytes, outcome.bytes);
        if (space.info.stats) space.info.stats->process_vm_bytes.fetch_add(outcome.bytes, std::memory_order_relaxed);
        if (outcome.error != EPERM || !space.info.agent) return true;
        use_agent(space);
        return false;
    }

    // May something be done in the space now? False: it must wait.
    bool settle(Space& space) {
        // The agent places what was deferred before it does anything.
        if (!space.deferred || space.deferred->empty() || space.info.path == Path::Agent) return true;
        switch (space.deferred->settle(space.info.pid)) {
            case DeferredStage::Settled::Done: return true;
            case DeferredStage::Settled::Busy: return false;
            case DeferredStage::Settled::Refused:
                if (space.info.agent) use_agent(space);
                return true;
        }
        return true;
    }

    // Empty, if no other shard can come in between.
    std::unique_lock<std::mutex> exclude(uint64_t va) {
        return locks == nullptr ? std::unique_lock<std::mutex>{} : std::unique_lock{locks->of(va)};
    }

    void count_mapped(Space& space, uint64_t bytes) {
        counters.add(Counter::payload_mapped_bytes, bytes);
        if (space.info.stats) space.info.stats->mapped_bytes.fetch_add(bytes, std::memory_order_relaxed);
    }

    void count_moved(Space& space) {
        if (space.moved_bytes != 0) count_mapped(space, std::exchange(space.moved_bytes, 0));
    }

    // What the agent has not done yet stays in front, what waits too, and what was deferred.
    static bool nothing_before(const Space& space) {
        return space.waiting.empty() && !(space.agent && space.agent->busy()) && (!space.deferred || space.deferred->empty());
    }

    Outcome copy_now(Space& space, Direction direction, std::span<const Piece> pieces, uint64_t cookie, Instant now, Result& result);
    Outcome atomic_now(Space& space, bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap, uint64_t cookie,
                       Instant now, Result& result);
    void resume(Space& space, Instant now);
    void abandon(Space& space) {
        if (space.agent) space.agent->abandon(results);
        for (const WaitingJob& job : space.waiting) {
            count_fault(&space);
            results.push_back({job.cookie, Outcome::GivenUp, 0, 0});
        }
        space.waiting.clear();
        space.info.path = Path::None;  // find() does not find it any more
    }

    // Bursts are of one process, most often. Nodes of the map stay where they are.
    Space* find(memory::SpaceId id) {
        if (last == nullptr || last->info.id != id) {
            const auto it = spaces.find(id);
            if (it == spaces.end()) return nullptr;
            last = &it->second;
        }
        return last->info.path == Path::None ? nullptr : last;
    }
};

void PayloadMover::map(memory::SpaceId id, uint32_t key, std::byte* local, uint64_t va, uint64_t length) {
    if (const auto it = impl_->spaces.find(id); it != impl_->spaces.end()) it->second.mappings.insert(key, {local, va, length});
}

void PayloadMover::unmap(memory::SpaceId id, uint32_t key) {
    if (const auto it = impl_->spaces.find(id); it != impl_->spaces.end()) it->second.mappings.remove(key);
}

PayloadMover::PayloadMover(stats::CounterBlock& counters, AtomicLocks* locks)
    : impl_(std::make_unique<Impl>(counters, locks)) {
    guard::install();
}
PayloadMover::~PayloadMover() = default;

void PayloadMover::add_space(const SpaceInfo& info) {
    Space& space = impl_->spaces[info.id];
    space.info = info;
    if (info.stats) info.stats->path.store(info.path, std::memory_order_relaxed);
    if (info.path == Path::Agent && info.agent) impl_->use_agent(space);
    if (info.receive_stage) space.deferred = std::make_unique<DeferredStage>(*info.receive_stage, info.stats, impl_->counters);
}

void PayloadMover::abandon(memory::SpaceId id) {
    if (const auto it = impl_->spaces.find(id); it != impl_->spaces.end()) impl_->abandon(it->second);
}

void PayloadMover::remove_space(memory::SpaceId id) {
    const auto it = impl_->spaces.find(id);
    if (it == impl_->spaces.end()) return;
    impl_->abandon(it->second);
    impl_->count_moved(it->second);
    impl_->last = nullptr;
    impl_->spaces.erase(it);
}

Outcome PayloadMover::Impl::copy_now(Space& space, Direction direction, std::span<const Piece> pieces, uint64_t cookie,
                                    Instant now, Result& result) {
    const bool word = direction == Direction::ToSpace && pieces.size() == 1 && is_word(pieces[0]);
    const auto lock = word ? exclude(pieces[0].va) : std::unique_lock<std::mutex>{};
    const Outcome mapped = copy_mapped(space, direction, pieces, cookie, result);
    if (mapped != Outcome::Pending) return mapped;
    if (space.info.path == Path::ProcessVm) {
        VmOutcome outcome;
        if (pull(space, direction, pieces, outcome)) {
            if (outcome.error != 0) return fault(&space, cookie, outcome.complete, result);
            result = {cookie, Outcome::Done, 0, 0};
            return Outcome::Done;
        }
    }
    if (!space.agent) return fault(&space, cookie, 0, result);
    space.agent->copy(direction, pieces, cookie, now);
    return Outcome::Pending;
}

Outcome PayloadMover::Impl::atomic_now(Space& space, bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap,
                                      uint64_t cookie, Instant now, Result& result) {
    if (space.info.path == Path::ProcessVm) {
        // Read, then write: atomic among the atomics of this NIC (IBTA 9.4.5), not against the program's own CPU:
        // IBV_ATOMIC_HCA.
        const auto lock = exclude(va);
        uint64_t value = 0;
        const Piece piece{reinterpret_cast<std::byte*>(&value), va, sizeof value};
        VmOutcome outcome;
        if (pull(space, Direction::FromSpace, {&piece, 1}, outcome)) {
            if (outcome.error != 0) return fault(&space, cookie, 0, result);
            const uint64_t original = value;
            value = compare_swap ? (original == compare_add ? swap : original) : original + compare_add;
            // A compare that fails still proves that the memory may be written.
            (void)pull(space, Direction::ToSpace, {&piece, 1}, outcome);
            if (outcome.error != 0) return fault(&space, cookie, 0, result);
            result = {cookie, Outcome::Done, 0, original};
            return Outcome::Done;
        }
    }
    if (!space.agent) return fault(&space, cookie, 0, result);
    space.agent->atomic(compare_swap, va, compare_add, swap, cookie, now);
    return Outcome::Pending;
}

// The jobs that wait, in order, as far as they may go on.
void PayloadMover::Impl::resume(Space& space, Instant now) {
    while (!space.waiting.empty()) {
        WaitingJob& job = space.waiting.front();
        Result result{job.cookie, Outcome::Fault, 0, 0};
        Outcome outcome;
        if (settle(space)) {
            outcome = job.atomic ? atomic_now(space, job.compare_swap, job.va, job.compare_add, job.swap, job.cookie, now, result)
                                 : copy_now(space, job.direction, job.pieces, job.cookie, now, result);
        } else if (now < job.deadline) {
            return;
        } else {
            count_fault(&space);  // a stopped process
            result.outcome = outcome = Outcome::GivenUp;
        }
        if (outcome != Outcome::Pending) results.push_back(result);
        space.waiting.pop_front();
    }
}

Outcome PayloadMover::copy(memory::SpaceId id, Direction direction, std::span<const Piece> pieces, uint64_t cookie,
                           Instant now, Result& result) {
    if (id == abi::kNullSpace) {
        if (direction == Direction::FromSpace)
            for (const Piece& piece : pieces) std::memset(piece.local, 0, piece.length);
        result = {cookie, Outcome::Done, 0, 0};
        return Outcome::Done;
    }
    Space* space = impl_->find(id);
    if (!space) return impl_->fault(nullptr, cookie, 0, result);
    if (pieces.empty()) {
        result = {cookie, Outcome::Done, 0, 0};
        return Outcome::Done;
    }
    if (space->waiting.empty() && impl_->settle(*space))
        return impl_->copy_now(*space, direction, pieces, cookie, now, result);
    WaitingJob job;
    job.direction = direction;
    job.pieces.assign(pieces.begin(), pieces.end());
    job.cookie = cookie;
    job.deadline = now + kJobTimeout;
    space->waiting.push_back(std::move(job));
    return Outcome::Pending;
}

Outcome PayloadMover::atomic(memory::SpaceId id, bool compare_swap, uint64_t va, uint64_t compare_add, uint64_t swap,
                             uint64_t cookie, Instant now, Result& result) {
    Space* space = impl_->find(id);
    if (!space) return impl_->fault(nullptr, cookie, 0, result);
    if (space->waiting.empty() && impl_->settle(*space))
        return impl_->atomic_now(*space, compare_swap, va, compare_add, swap, cookie, now, result);
    space->waiting.push_back({true, Direction::ToSpace, {}, compare_swap, va, compare_add, swap, cookie, now + kJobTimeout});
    return Outcome::Pending;
}

bool PayloadMover::place(memory::SpaceId id, const Piece& piece, bool ends_write) {
    Space* space = impl_->find(id);
    if (space == nullptr || space->mappings.empty() || !Impl::nothing_before(*space)) return false;
    std::byte* const theirs = space->mappings.find(piece);
    if (theirs == nullptr) return false;
    const auto lock = is_word(piece) ? impl_->exclude(piece.va) : std::unique_lock<std::mutex>{};
    if (!copy_piece(Direction::ToSpace, piece, theirs, ends_write)) return false;
    space->moved_bytes += piece.length;
    return true;
}

bool PayloadMover::read(memory::SpaceId id, const Piece& piece, void (*read)(void*, const std::byte*), void* argument) {
    Space* space = impl_->find(id);
    if (space == nullptr || space->mappings.empty() || !Impl::nothing_before(*space)) return false;
    struct Call {
        void (*read)(void*, const std::byte*);
        void* argument;
        const std::byte* from;
    } call{read, argument, space->mappings.find(piece)};
    if (call.from == nullptr) return false;
    const auto body = [](void* c) { static_cast<Call*>(c)->read(static_cast<Call*>(c)->argument, static_cast<Call*>(c)->from); };
    if (!guard::run(body, &call)) return false;
    space->moved_bytes += piece.length;
    return true;
}

bool PayloadMover::defer(memory::SpaceId id, std::span<const Piece> pieces, std::span<const Origin> origins) {
    Space* space = impl_->find(id);
    if (!space || !space->deferred) return false;
    // What waits or is with the agent stays in front; what is mapped needs no second copy.
    if (!space->waiting.empty() || (space->agent && space->agent->busy())) return false;
    if (!space->mappings.empty())
        for (const Piece& piece : pieces)
            if (space->mappings.find(piece) != nullptr) return false;
    return space->deferred->append(pieces, origins);
}

bool PayloadMover::take_deferred_fault(memory::SpaceId& of, Origin& origin) {
    for (auto& [id, space] : impl_->spaces) {
        of = id;
        if (space.deferred && space.deferred->take_fault(origin)) return true;
    }
    return false;
}

size_t PayloadMover::poll(Instant now, std::span<Result> results) {
    for (auto& [id, space] : impl_->spaces) {
        if (space.agent && !space.agent->empty()) space.agent->poll(now, impl_->results);
        if (space.deferred && !space.deferred->empty()) space.deferred->retire();
        if (!space.waiting.empty()) impl_->resume(space, now);
        impl_->count_moved(space);
    }
    size_t n = 0;
    while (n < results.size() && !impl_->results.empty()) {
        results[n++] = impl_->results.front();
        impl_->results.pop_front();
    }
    return n;
}

uint64_t PayloadMover::fence(memory::SpaceId id) const {
    const auto it = impl_->spaces.find(id);
    if (it == impl_->spaces.end() || !it->second.agent) return 0;
    return it->second.agent->next() + it->second.waiting.size();
}

bool PayloadMover::passed(memory::SpaceId id, uint64_t fence) const {
    const auto it = impl_->spaces.find(id);
    if (it == impl_->spaces.end()) return true;
    return it->second.waiting.empty() && (!it->second.agent || it->second.agent->passed(fence));
}

bool PayloadMover::idle() const {
    if (!impl_->results.empty()) return false;
    for (const auto& [id, space] : impl_->spaces)
        if ((space.agent && space.agent->pending()) || !space.waiting.empty()) return false;
    return true;
}

}  // namespace rocemu::payload
