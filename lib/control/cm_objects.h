// SPDX-License-Identifier: BSD-3-Clause
// What a session owns at the rdma_cm device: event channels, ids, memberships of multicast groups. Plain records; the
// protocol state of a connection is in lib/cm. An object is found only in the tables of its own session.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "abi/messages.h"
#include "cm/bindings.h"
#include "control/event_loop.h"
#include "control/id_pool.h"

namespace rocemu::control {

// An event that was not fetched yet.
struct CmPendingEvent {
    abi::CmGetEventReply record;
    uint32_t number = 0;      // of the id it counts for; not record.id for a request to a listener
    uint64_t serial = 0;      // of that id
    bool membership = false;  // number and serial are those of a membership
};

// The daemon's end of an event channel. At most one record is on the socket, however many events wait: the receiver of
// the record asks for an event and is sent another record when there are more. So no socket buffer bounds the queue and
// none of it is lost.
class CmChannel {
  public:
    CmChannel(EventLoop& loop, UniqueFd fd, std::function<void()> on_close);
    ~CmChannel();
    CmChannel(const CmChannel&) = delete;
    CmChannel& operator=(const CmChannel&) = delete;

    void push(CmPendingEvent event);
    // The first event; the application has taken the record from the socket before it asked.
    std::optional<CmPendingEvent> pop();
    // True: no event waits, but the record that told of one is on the socket. From now on it counts as taken.
    bool withdraw() { return events_.empty() && std::exchange(announced_, false); }
    // Takes the events for which `wanted` says so.
    template <typename Wanted>
    std::list<CmPendingEvent> extract(Wanted wanted) {
        std::list<CmPendingEvent> taken;
        for (auto it = events_.begin(); it != events_.end();)
            if (const auto event = it++; wanted(*event)) taken.splice(taken.end(), events_, event);
        return taken;
    }
    void clear() { events_.clear(); }

  private:
    void announce();

    EventLoop& loop_;
    UniqueFd fd_;
    std::list<CmPendingEvent> events_;
    bool announced_ = false;
};

// The steps of an id, as far as they decide which command may come next.
enum class CmStage : uint8_t {
    Idle,
    Bound,
    Listening,
    Resolving,  // the address
    AddressResolved,
    RouteResolved,
    Request,    // of a peer, to be accepted or rejected
    Connected,  // a connection in lib/cm exists: from connect or accept on
};

struct CmEndpoint {
    wire::Gid address{};  // IPv4 as ::ffff:a.b.c.d
    uint32_t scope_id = 0;
    uint16_t port = 0;
    bool set = false;
};

struct CmIdObject {
    uint32_t channel = 0;
    uint64_t serial = 0;  // unique for ever: numbers are used again
    uint64_t uid = 0;     // the application's; 0 for a request that was not accepted yet
    cm::PortSpace port_space = cm::PortSpace::Tcp;
    uint8_t qp_type = 0;  // enum ibv_qp_type
    bool datagram = false;
    CmStage stage = CmStage::Idle;
    bool address_event = false;  // how its address was resolved: not fetched yet
    bool announced = true;  // false: made for a request whose event was not fetched; the application cannot name it
    std::optional<uint32_t> device;
    CmEndpoint source, destination;       // as the application knows them
    wire::Gid local_gid{}, remote_gid{};  // on the wire: others for a loopback address
    cm::BindingId binding = 0;
    cm::CmId connection = 0;
    bool disconnected = false;  // its event was made
    uint32_t events_reported = 0;
    uint32_t starting_psn = 0;
    bool reuse_address = false, v6_only = false;
    uint8_t traffic_class = 0;
    std::optional<uint8_t> ack_timeout;
};

struct CmMembership {
    uint32_t id = 0;  // the CmIdObject
    uint64_t serial = 0;
    uint64_t uid = 0;
    uint32_t events_reported = 0;
};

struct CmTables {
    bool known = false;  // to the connection manager, as an owner
    IdPool channel_ids{1, 1u << 20};
    IdPool ids{1, 1u << 16};  // librdmacm's own table ends there
    IdPool membership_ids{1, 1u << 20};
    std::unordered_map<uint32_t, std::unique_ptr<CmChannel>> channels;
    std::unordered_map<uint32_t, CmIdObject> objects;
    std::unordered_map<uint32_t, CmMembership> memberships;
    std::map<uint64_t, uint32_t> to_resolve;  // ids whose turn to search has not come: number by serial
    uint32_t searches = 0;                    // for neighbours that were begun for ids, also for those that are gone by now
    bool searching = false;                   // begins some: answers may come at once
};

}  // namespace rocemu::control
