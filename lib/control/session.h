// SPDX-License-Identifier: BSD-3-Clause
// Session: one connected process: its socket, identity, shared regions and object tables. Requests are read one at a
// time, replies may come later and in another order. A session that ended stays in memory until the last call that
// mentions it has come back from the shards.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/messages.h"
#include "abi/session_page.h"
#include "control/cm_objects.h"
#include "control/event_loop.h"
#include "control/id_pool.h"
#include "control/objects.h"
#include "control/peer.h"
#include "control/shared_region.h"
#include "payload/mover.h"

namespace rocemu::control {

class Session {
  public:
    // Requests of one session under way before it is no longer read from.
    static constexpr uint32_t kMaxInFlight = 64;

    Session(EventLoop& loop, UniqueFd fd, Peer peer);
    ~Session();

    // What came with a request. `lost`: there were more, for which this process or the kernel has no room now.
    struct Fds {
        std::vector<UniqueFd> list;
        bool lost = false;
    };
    // One request: header and body (within kMaxMessageBytes).
    using RequestHandler = std::function<void(const abi::MessageHeader&, std::span<const std::byte> body, Fds fds)>;
    void start(RequestHandler on_request, std::function<void()> on_end);
    // Sends a reply; kept and sent later when the socket is full. Nothing after close().
    void send(const abi::MessageHeader& header, std::span<const std::byte> body, std::vector<UniqueFd> fds);
    // The socket is closed and nothing is read or sent any more.
    void close();
    [[nodiscard]] bool closed() const { return !fd_; }

    // Calls to shards that concern this session. `what` runs when none is under way (perhaps at once).
    void call_begins() { ++calls_; }
    void call_ends();
    void when_idle(std::function<void()> what);

    void request_begins() { ++in_flight_; }
    void request_ends();

    // While objects of a context are being destroyed nothing is read: what a request made in it would be in none of the lists
    // of what is to go, and outlive the PD and the CQ that it refers to.
    void closing_begins();
    void closing_ends();

    // An object of the context is gone, and its events with it (none comes from the shards any more).
    void forget_events(uint32_t context, uint64_t cookie);

    [[nodiscard]] std::string name() const;  // for the log: "session 3 (ib_send_bw, pid 77)"

    // --- state of the services
    // ------------------------------------------------------------------------------------------
    uint32_t id = 0;  // also the payload space; 0 before hello
    Peer peer;
    bool greeted = false;  // hello was accepted
    bool admin = false;
    bool ending = false;  // its objects are being destroyed

    payload::Path path = payload::Path::None;
    bool capture = false;  // it has a stage
    bool deferred = false;  // it has a receive stage
    bool mapped = false;   // files behind its regions are mapped
    bool share = false;    // its private memory becomes shared when it is registered
    uint64_t share_refused = 0;  // regions of which it did not
    int share_error = 0;         // errno: why, most recently
    std::unique_ptr<SharedRegion> region0;
    abi::SessionPage* page = nullptr;
    std::vector<UniqueFd> wake_fds;  // one eventfd a shard
    std::vector<std::unique_ptr<payload::SpaceStats>> space_stats;
    std::unique_ptr<QueueArena> arena;

    IdPool context_ids{1, 1u << 20}, channel_ids{1, 1u << 20}, slots{0, abi::kMaxQpsPerSession}, ah_ids{1, 1u << 24},
        xrcd_ids{1, 1u << 20}, flow_ids{1, 1u << 20};
    std::unordered_map<uint32_t, ContextObject> contexts;
    std::unordered_map<uint32_t, PdObject> pds;
    std::unordered_map<uint32_t, MrObject> mrs;  // by key
    std::unordered_map<uint32_t, MwObject> mws;  // by the key they were allocated with
    std::unordered_map<uint32_t, AhObject> ahs;
    std::unordered_map<uint32_t, ChannelObject> channels;
    std::unordered_map<uint32_t, CqObject> cqs;
    std::unordered_map<uint32_t, SrqObject> srqs;
    std::unordered_map<uint32_t, QpObject> qps;  // by QPN
    std::unordered_map<uint32_t, XrcdObject> xrcds;
    std::unordered_map<uint32_t, RssQpObject> rss_qps;  // by QPN
    std::unordered_map<uint32_t, FlowObject> flows;

    CmTables cm;  // the rdma_cm device

    std::string document;  // admin: the text being read in pieces

  private:
    struct Outgoing {
        std::vector<std::byte> bytes;
        std::vector<UniqueFd> fds;
    };
    void handle_events(uint32_t events);
    void read_requests();
    bool read_one();
    void flush();
    void update_interest();
    bool send_now(const Outgoing& record);

    EventLoop& loop_;
    UniqueFd fd_;
    RequestHandler on_request_;
    std::function<void()> on_end_;
    std::deque<Outgoing> outgoing_;
    uint32_t in_flight_ = 0;
    uint32_t calls_ = 0;
    uint32_t closing_ = 0;
    uint32_t interest_ = 0;
    std::vector<std::function<void()>> when_idle_;
};

}  // namespace rocemu::control
