// SPDX-License-Identifier: BSD-3-Clause
// CmManager: the connection manager of one daemon. Commands of owners and MADs come in with `now`; MADs, events and the
// next deadline are polled. Read IBTA volume 1, chapter 12, and annex A11 (RDMA IP CM service).
//
// Use, after every call that takes `now`:
//     while (cm.poll_transmit(mad)) send it from QP1;
//     while (cm.poll_event(event)) deliver it;
//     arm a timer for cm.next_deadline(), then call handle_timeout.
// Not thread safe: one owner thread. No allocation after construction. An id that an owner does not have is NotFound,
// whether it exists or not, so owners can neither see nor reach each other. Capacities: config.h.
#pragma once

#include "cm/bindings.h"
#include "cm/connection_table.h"
#include "cm/owners.h"

namespace rocemu::cm {

class CmManager {
  public:
    using Bytes = std::span<const std::byte>;
    struct Bound {
        BindingId id = 0;
        uint16_t port = 0;
    };

    explicit CmManager(const Config& config);
    CmManager(const CmManager&) = delete;
    CmManager& operator=(const CmManager&) = delete;

    // Owners. InvalidArgument: known already. remove_owner destroys all it has, as destroy and unbind do.
    Status add_owner(OwnerId owner, const OwnerLimits& limits);
    void remove_owner(Instant now, OwnerId owner);

    // Ports. A connecting id binds its source port too. unbind refuses requests that were not fetched yet.
    Result<Bound> bind(OwnerId owner, const BindParams& params);
    Status listen(OwnerId owner, BindingId binding, uint32_t backlog);
    Status unbind(Instant now, OwnerId owner, BindingId binding);

    // Active side: connect, [ConnectResponse], confirm (after the QP is in RTS).
    Result<CmId> connect(Instant now, OwnerId owner, const ConnectParams& params);
    Status confirm(OwnerId owner, CmId id, Bytes private_data = {});
    // Passive side: [ConnectRequest], request_fetched (its backlog place is free), accept, [Established].
    Status request_fetched(OwnerId owner, CmId id);
    Status accept(Instant now, OwnerId owner, CmId id, const AcceptParams& params);
    // The QP received data before the RTU came (IBV_EVENT_COMM_EST).
    Status notify_established(OwnerId owner, CmId id);
    // Both sides.
    Status reject(Instant now, OwnerId owner, CmId id, const RejectParams& params);
    Status disconnect(Instant now, OwnerId owner, CmId id, Bytes private_data = {});
    // UD.
    Result<CmId> sidr_request(Instant now, OwnerId owner, const SidrRequestParams& params);
    Status sidr_reply(Instant now, OwnerId owner, CmId id, const SidrReplyParams& params);
    // Ends the id in any state, with what its state owes the peer. Events not polled yet are discarded.
    Status destroy(Instant now, OwnerId owner, CmId id);

    [[nodiscard]] Result<ConnectionInfo> info(OwnerId owner, CmId id);

    // Wire and time.
    void handle_mad(Instant now, const RxMad& rx);
    // Does what is due, as far as there is room for events and MADs: call again while next_deadline() <= now.
    void handle_timeout(Instant now);
    [[nodiscard]] Instant next_deadline() const { return table_.earliest_deadline(); }
    bool poll_transmit(TxMad& out);
    bool poll_event(Event& out);

    [[nodiscard]] const Counters& counters() const { return out_.counters; }
    // Slots in use, lingering ones included.
    [[nodiscard]] uint32_t connections() const { return table_.size(); }
    // Ports and wildcards that are taken.
    [[nodiscard]] uint32_t bindings() const { return bindings_.size(); }

  private:
    [[nodiscard]] Connection* find(OwnerId owner, CmId id);
    [[nodiscard]] Connection* find_for(const RxMad& rx, CmId local_id, uint32_t remote_id, bool sidr = false);
    [[nodiscard]] Result<Connection*> allocate(OwnerId owner, uint64_t local_ca_guid);
    void leave_backlog(Connection& connection);
    void destroy(Instant now, Connection& connection);
    // Runs a command on an owner's connection and lets the table follow.
    template <typename Command>
    Status run(OwnerId owner, CmId id, Command command);
    // The slot of a new request of a listener, or nullptr: its owner or the manager has no room.
    Connection* admit(const RxMad& rx, Binding& binding);

    void on_req(Instant now, const RxMad& rx);
    void on_rep(Instant now, const RxMad& rx);
    void on_rtu(const RxMad& rx);
    void on_rej(Instant now, const RxMad& rx);
    void on_mra(Instant now, const RxMad& rx);
    void on_dreq(Instant now, const RxMad& rx);
    void on_drep(Instant now, const RxMad& rx);
    void on_lap(const RxMad& rx);
    void on_sidr_req(Instant now, const RxMad& rx);
    void on_sidr_rep(const RxMad& rx);
    void refuse(const RxMad& rx, RejectReason reason, MessageKind message, uint32_t local_id, uint32_t remote_id);
    void refuse_sidr(const RxMad& rx, const SidrReq& req, SidrStatus status);

    const Config config_;
    Outbox out_;
    Owners owners_;
    Bindings bindings_;
    ConnectionTable table_;
    uint32_t owned_ = 0;  // connections that have an owner: the others make room (ConnectionTable::allocate)
};

}  // namespace rocemu::cm
