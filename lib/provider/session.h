// SPDX-License-Identifier: BSD-3-Clause
// Session: this process as the daemon knows it: the control connection, the shared page, doorbells, regions, and the
// tables by which completions and events find their objects. Made at the first use of a device and never freed (objects
// point to it); after the death of the daemon or in a forked child it stays as a dead one and a new one is made.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "abi/agent_ring.h"
#include "abi/session_page.h"
#include "provider/connection.h"
#include "provider/mr_table.h"
#include "provider/receive_stage.h"
#include "provider/region_map.h"
#include "provider/stage.h"

namespace rocemu::provider {

struct Context;
struct Cq;
struct Qp;
struct Srq;

enum class SessionState : uint32_t {
    Alive,
    Dead,       // the daemon is gone: the provider completes posted work with errors itself
    Forgotten,  // inherited by a forked child: nothing of it is touched
};

// Where a CQE's qp_slot leads. Written under the locks of the QP's CQs, read under the lock of one of them.
struct QpSlot {
    std::atomic<uint32_t> qpn;
    std::atomic<Qp*> qp;
};

class Session {
  public:
    // nullptr with *error set.
    static Session* open(int* error);

    [[nodiscard]] SessionState state() const { return state_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool alive() const { return state() == SessionState::Alive; }
    void mark_dead();
    void forget();  // child of a fork only

    // Is the daemon still there? One system call. Also starts the agent when the daemon wants it.
    void check_daemon();
    // After the end of file on a socket of events: has the daemon ended, or (true) just what the socket was for? Asks it,
    // as its descriptors are closed one after the other when it dies.
    [[nodiscard]] bool daemon_answers();

    // 0, the daemon's errno value, or EIO when the daemon is gone.
    template <typename Request>
    int call(const Request& request, typename MessageTraits<Request>::Reply& reply, std::span<const int> fds = {},
             Arrival* arrival = nullptr) {
        if (!alive()) return EIO;
        const int rc = connection_.call(request, reply, fds, arrival);
        after_call();
        return rc;
    }
    // For requests whose reply tells of a queue. *made: the daemon did what was asked, so an error after that is ours to
    // undo.
    template <typename Request, typename Reply>
    int call_for_queue(const Request& request, Reply& reply, const abi::QueueRef& queue, bool* made) {
        // A region that comes with it is mapped before a reply that tells of another queue in the same one is looked at.
        struct TakeRegion final : Arrival {
            TakeRegion(RegionMap& m, const Reply& r, const abi::QueueRef& q) : map(m), told(r), where(q) {}
            void arrived(FdList& fds) override { error = map.take(where, told.new_region_bytes, fds); }
            RegionMap& map;
            const Reply& told;
            const abi::QueueRef& where;
            int error = 0;
        } region(regions_, reply, queue);
        const int rc = call(request, reply, {}, &region);
        *made = rc == 0;
        return rc == 0 ? region.error : rc;
    }
    // For requests that undo something: a daemon that is gone has undone everything.
    template <typename Request>
    int undo(const Request& request) {
        if (!alive()) return 0;
        typename MessageTraits<Request>::Reply reply;
        const int rc = call(request, reply);
        return alive() ? rc : 0;
    }

    // Tells shard `shard` that a queue of the QP in `slot` has a new producer index (stored before, with release).
    void ring(uint32_t shard, uint32_t slot) const;

    [[nodiscard]] const abi::HelloReply& hello() const { return hello_; }
    [[nodiscard]] abi::SessionPage& page() const { return *page_; }
    [[nodiscard]] RegionMap& regions() { return regions_; }
    [[nodiscard]] MrTable& mrs() { return mrs_; }
    [[nodiscard]] Stage& stage() { return stage_; }
    [[nodiscard]] ReceiveStage& receive_stage() { return receive_stage_; }
    // What the daemon had for this process is in its place behind this; for calls after which it may not come any more.
    void settle() {
        if (state() != SessionState::Forgotten) receive_stage_.drain();
    }
    [[nodiscard]] QpSlot& qp_slot(uint32_t slot) const { return qp_slots_[slot]; }

    // Live objects by the cookie that comes in their events. A cookie is never used again: the event of an object that was
    // destroyed is not taken for one of another at the same address. Guarded by objects_lock, under which records are taken
    // from the sockets of events too.
    Mutex objects_lock;
    std::unordered_map<uint64_t, Cq*> cqs;
    std::unordered_map<uint64_t, Qp*> qps;
    std::unordered_map<uint64_t, Srq*> srqs;
    [[nodiscard]] uint64_t new_cookie() { return next_cookie_.fetch_add(1, std::memory_order_relaxed); }
    std::unordered_set<uint32_t> pd_handles;
    std::unordered_map<uint32_t, size_t> mr_handles;  // with their length

    Session* before = nullptr;  // of this process, with a daemon that is gone (process.cpp)

    // Taking the record of a channel of rdma_cm and asking for its event are one step against withdrawing it (cm_write.cpp).
    Mutex cm_events_lock;

  private:
    Session() = default;
    int set_up(const char* path);
    void after_call();
    void start_agent_if_wanted();

    std::atomic<SessionState> state_{SessionState::Alive};
    std::atomic<uint64_t> next_cookie_{256};  // above the numbers of ports, which stand in the same place of a record
    Connection connection_;
    RegionMap regions_;
    abi::HelloReply hello_;
    abi::SessionPage* page_ = nullptr;
    abi::DoorbellBlock* doorbells_ = nullptr;
    abi::AgentRing* agents_ = nullptr;
    QpSlot* qp_slots_ = nullptr;
    MrTable mrs_;
    Stage stage_;
    ReceiveStage receive_stage_;
    int region0_fd_ = -1;
    int wake_fds_[abi::kMaxShards] = {};
    std::atomic<uint32_t> agents_started_{0};  // bit i: of shard i
};

}  // namespace rocemu::provider
