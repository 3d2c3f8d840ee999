// SPDX-License-Identifier: BSD-3-Clause
// Shard: one lcore's share of the NIC. Owns its QPs, CQ rings, timers, port queues, counters, its replica of the key
// table and its payload mover. Nothing is shared: control talks to it by ShardCalls. All methods of the second group
// are for ShardCall::on_shard only (asserted in debug builds).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/address_table.h"
#include "engine/gsi.h"
#include "engine/setup.h"
#include "engine/shard_call.h"
#include "memory/key_table.h"
#include "stats/counters.h"

namespace rocemu::payload {
class AtomicLocks;
}

namespace rocemu::engine {

struct WaitPolicy {
    enum class Mode : uint8_t { Adaptive, Dedicated };
    Mode mode = Mode::Adaptive;
    uint32_t empty_polls = 32;                // before the first sched_yield
    Duration contended_yield = kMillisecond;  // a yield longer than this: sleep for the next waits
    uint32_t contended_waits = 128;
    Duration idle_before_sleep = 2 * kMillisecond;
    Duration max_sleep = 100 * kMillisecond;  // also bounded by the next deadline; ports without wake_fd: 1 ms or less
};

struct ShardConfig {
    uint32_t index = 0;
    WaitPolicy wait;
    uint32_t qp_turn_packets = 64;
    uint32_t qp_turn_bytes = 256 * 1024;
    bool icrc_check = true;  // false: wrong ICRCs are counted but accepted
    payload::AtomicLocks* atomic_locks = nullptr;  // of all shards of the NICs; nullptr: there is one
};

// A snapshot for `rocemu status`; written by the shard with relaxed stores.
struct ShardLoad {
    std::atomic<uint64_t> loops{0}, busy_loops{0}, sleeps{0}, qps{0};
};

class Shard {
  public:
    explicit Shard(const ShardConfig& config);
    ~Shard();

    // --- before run(), or any thread where said ---------------------------------------------------------------------
    // Throws std::invalid_argument if the pool's frames cannot hold a packet of path MTU 4096.
    void add_device(const DeviceSetup& device);
    void run();   // the loop, until stop(); one thread, becomes the owner
    void stop();  // any thread
    // Runs one turn at `now`: what run() repeats. Tests drive shards with it in virtual time. True if it did something.
    bool turn(Instant now);

    // Control thread only. False: the ring is full, try again later (the call stays the caller's).
    bool submit(std::unique_ptr<ShardCall>& call);
    // Control thread only: finished calls run on_control() and are freed; returns how many.
    size_t finish_calls();
    // Control thread only. A full `events` means there may be more.
    size_t poll_events(std::span<ShardEvent> events);
    // Control thread only, after poll_events. MADs that arrived at QP 1.
    size_t poll_mads(std::span<ReceivedMad> mads);
    // eventfd that becomes readable when finish_calls, poll_events or poll_mads has something to do. At each wake-up
    // call finish_calls first (it clears the eventfd), then the two others until they return less than the room given.
    [[nodiscard]] int control_fd() const;

    [[nodiscard]] const ShardLoad& load() const;                               // any thread
    [[nodiscard]] const stats::CounterBlock& counters(DeviceId device) const;  // any thread; device exists since start
    // Any thread. The payload_* counters of this shard: its mover serves all devices.
    [[nodiscard]] const stats::CounterBlock& payload_counters() const;

    // --- for ShardCall::on_shard -----------------------------------------------------------------------------------
    memory::KeyTable& keys();
    void set_port_state(DeviceId device, const PortState& state);
    // Neighbours have other MAC addresses now: who talks to them goes on there. One walk over everything; sorted.
    void neighbours_moved(std::span<const NeighbourMove> moves);
    // ARP requests of control. False: the port is backed up, the frame is lost.
    bool send_raw(DeviceId device, std::span<const std::byte> frame);
    void send_mad(DeviceId device, std::span<const std::byte> frame);  // a whole RoCE frame from QP 1

    void add_session(const SessionSetup& setup);
    // The process is gone: payload jobs in its memory end, and nobody waits for it any more.
    void abandon_payload(SessionId session);
    // Precondition: its QPs and CQs are gone.
    bool remove_session(SessionId session);

    // XRC domains, by a number of the same kind as sessions have. Precondition of remove: its QPs and SRQs are gone.
    void add_xrc_domain(SessionId domain);
    void remove_xrc_domain(SessionId domain);

    // Memory of region `key` that the daemon has mapped at `local` (payload::PayloadMover::map); unmap before it goes away.
    void map_region(SessionId session, uint32_t key, std::byte* local, uint64_t va, uint64_t length);
    void unmap_region(SessionId session, uint32_t key);

    // Deregistration, after the key has left keys(): true once no job that knew it is under way. First call with
    // `fence` 0 sets it.
    bool payload_passed(SessionId session, uint64_t& fence);

    // Membership of a datagram QP in a multicast group. False: the QP is gone.
    bool attach_group(uint32_t qpn, const wire::Gid& group);
    void detach_group(uint32_t qpn, const wire::Gid& group);

    // Flow rules, on shard kRawShard. A QP that is gone gets nothing, its number may be somebody else's by then.
    void create_flow(const FlowSetup& setup);
    void destroy_flow(DeviceId device, SessionId session, uint32_t flow);

    // Address handles of a session. One that goes away while WQEs name it loses their packets: first hurry_posted.
    void create_ah(SessionId session, uint32_t number, const AddressRecord& record);
    void destroy_ah(SessionId session, uint32_t number);
    // Datagrams that wait for the provider to capture their payload wait no longer. True while something that the session has
    // posted was not looked at yet, or is being sent.
    [[nodiscard]] bool hurry_posted(SessionId session);

    void create_cq(const CqSetup& setup);
    void destroy_cq(CqId cq);
    void resize_cq(CqId cq, abi::QueueHeader* header, uint32_t entries);

    void create_srq(const SrqSetup& setup);
    void destroy_srq(SrqId srq);
    // Arms the limit event; raised at once if fewer WQEs wait. 0 disarms.
    void set_srq_limit(SrqId srq, uint32_t limit);
    [[nodiscard]] uint32_t srq_limit(SrqId srq) const;
    // What waits moves to `queue`, under the same indices. EINVAL: it does not fit, or the queue is broken.
    int resize_srq(SrqId srq, const QueueView& queue);

    void create_qp(const QpSetup& setup);
    // 0 or errno as transport::Qp::modify. `route`: the address headers, when mask has kAv (RTR); a UDP source port of
    // 0 is replaced by the one of the flow. EAGAIN (RESET only): payload jobs are out, nothing new is taken; call again
    // in a later turn, then nothing touches the application's memory any more.
    int modify_qp(uint32_t qpn, const transport::QpAttr& attr, uint32_t mask, const wire::AddressVector* route,
                  const char** bad_attr, transport::QpAttr* after);
    bool query_qp(uint32_t qpn, transport::QpAttr* attr);
    // First call: the QP leaves the tables, nothing of it is sent or received any more. True when it is gone (no
    // payload job of it is out). Call again until then.
    bool destroy_qp(uint32_t qpn);

    // Capture tap of a device (nullptr: off). The tap outlives the call that removes it.
    void set_tap(DeviceId device, class CaptureTap* tap);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::engine
