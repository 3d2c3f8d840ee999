// SPDX-License-Identifier: BSD-3-Clause
// Connection: the state machine of one communication id, active or passive, or of one UD address resolution.
// Read IBTA volume 1, 12.9 (state diagrams, timeouts), 12.10 (the messages a state sends) and 12.11 (SIDR).
//
// Pure: commands and handle_* come with `now` and put MADs and events into the Outbox; deadline() is when
// handle_timeout wants to be called. Finding the connection a MAD belongs to, and that it comes from the right peer, is
// the manager's part. Parts: connection_active.cpp, _passive.cpp, _refuse.cpp (REJ, MRA), _release.cpp (DREQ, time
// wait, destruction), _sidr.cpp; here and in connection.cpp what they share.
#pragma once

#include "cm/apr.h"
#include "cm/config.h"
#include "cm/dreq.h"
#include "cm/event.h"
#include "cm/lap.h"
#include "cm/mra.h"
#include "cm/outbox.h"
#include "cm/params.h"
#include "cm/rej.h"
#include "cm/rep.h"
#include "cm/req.h"
#include "cm/rtu.h"
#include "cm/sidr_req.h"

namespace rocemu::cm {

// The QP that a REP names: an XRC target's is in the place of the EE context, as Linux reads and writes it, and the
// local QPN is 0.
[[nodiscard]] inline uint32_t qpn_of(const Rep& rep, Transport transport) {
    return transport == Transport::Xrc ? rep.local_eecn : rep.local_qpn;
}

class Connection {
  public:
    using Bytes = std::span<const std::byte>;

    void open(const Config& config, CmId id, OwnerId owner, uint64_t local_ca_guid);
    void free() { info_.state = State::Free; }

    // Commands of the owner. A status other than Ok means that nothing has happened.
    Status connect(Instant now, const ConnectParams& params, Outbox& out);
    Status accept(Instant now, const AcceptParams& params, Outbox& out);
    Status confirm(Bytes private_data, Outbox& out);
    Status reject(Instant now, const RejectParams& params, Outbox& out);
    Status disconnect(Instant now, Bytes private_data, Outbox& out);
    // Data of the peer arrived: as good as the RTU. Needs event room.
    Status established(Outbox& out);
    Status sidr_request(Instant now, const SidrRequestParams& params, Outbox& out);
    Status sidr_reply(Instant now, const SidrReplyParams& params, Outbox& out);
    // The owner has no more interest: says so to the peer as its state demands. No event follows.
    void abandon(Instant now, Outbox& out);

    // Arrivals. Each may make one event.
    void handle_req(const RxMad& rx, const Req& req, const IpHeader& ip, BindingId binding, uint64_t cookie,
                    Outbox& out);
    void handle_req_again(Instant now, Outbox& out);
    void handle_rep(const Rep& rep, Outbox& out);
    void handle_rtu(const Rtu& rtu, Outbox& out);
    void handle_rej(Instant now, const Rej& rej, Outbox& out);
    void handle_mra(Instant now, const Mra& mra, Outbox& out);
    void handle_dreq(Instant now, const Dreq& dreq, uint64_t transaction_id, Outbox& out);
    void handle_drep(Instant now, Outbox& out);
    void handle_lap(const Lap& lap, uint64_t transaction_id, Outbox& out);
    void handle_sidr_req(const RxMad& rx, const SidrReq& req, const IpHeader& ip, BindingId binding, uint64_t cookie,
                         Outbox& out);
    void handle_sidr_rep(const SidrRep& rep, Outbox& out);
    void handle_timeout(Instant now, Outbox& out);
    // The peer shows that it does not know this connection any more: its QP asks for another one.
    void supersede(Instant now, Outbox& out);
    // The active side's connection whose REP names a QP that belongs to another live connection.
    void refuse_stale_rep(const Rep& rep, Outbox& out);

    [[nodiscard]] Instant deadline() const { return deadline_; }
    [[nodiscard]] State state() const { return info_.state; }
    [[nodiscard]] const ConnectionInfo& info() const { return info_; }
    [[nodiscard]] CmId id() const { return id_; }
    [[nodiscard]] uint32_t remote_id() const { return remote_id_; }
    [[nodiscard]] OwnerId owner() const { return owner_; }
    [[nodiscard]] BindingId binding() const { return binding_; }
    [[nodiscard]] bool is_orphan() const { return orphan_; }
    [[nodiscard]] bool is_sidr() const { return sidr_; }
    [[nodiscard]] bool knows_remote_id() const { return remote_known_; }
    // Who sent this: the packet's addresses and port must be those of this connection.
    [[nodiscard]] bool is_peer(const Path& path) const {
        return path.port == info_.path.port && path.remote_gid == info_.path.remote_gid;
    }
    // The peer's QP can only be in one connection that is in one of these states.
    [[nodiscard]] bool occupies_remote_qp() const;
    // A request counts in its listener's backlog until its event was fetched or it was answered.
    void count_in_backlog() { in_backlog_ = true; }
    [[nodiscard]] bool in_backlog() const { return in_backlog_; }
    void leave_backlog() { in_backlog_ = false; }

  private:
    [[nodiscard]] uint64_t own_transaction() const { return uint64_t{config_->transaction_prefix} << 32 | id_; }
    [[nodiscard]] bool in(State a, State b) const { return info_.state == a || info_.state == b; }
    void set_state(State state, Instant deadline = kNever) {
        info_.state = state;
        deadline_ = deadline;
    }
    void start_request(Instant now, State state, const Mad& mad, Outbox& out);
    void repeat(Outbox& out);
    // nullptr when there is nobody to tell.
    Event* add_event(Outbox& out, EventKind kind, int32_t status = 0);
    void give_private_data(Event* event, Bytes data);
    void set_remote_id(uint32_t id) {
        remote_id_ = id;
        remote_known_ = true;
    }
    void adopt_path(const RxMad& rx, const IpHeader& ip, BindingId binding, uint64_t cookie);
    [[nodiscard]] Rej make_rej(RejectReason reason) const;
    [[nodiscard]] Rej make_timeout_rej() const;
    void send_rej(const Rej& rej, Outbox& out) { out.send(info_.path, make_mad(transaction_, rej)); }
    void send_mra(MessageKind message, Outbox& out);
    void send_drep(Bytes private_data, Outbox& out);
    void answer(Instant now, const Mad& mad, Outbox& out);
    void linger(Instant now);
    void enter_timewait(Instant now);
    void give_up(Instant now, Outbox& out);

    const Config* config_ = nullptr;
    CmId id_ = 0;
    uint32_t remote_id_ = 0;
    OwnerId owner_ = 0;
    uint64_t cookie_ = 0;
    uint64_t local_ca_guid_ = 0;
    uint64_t transaction_ = 0;  // of the exchange under way: of the REQ, later of the peer's DREQ
    BindingId binding_ = 0;
    bool orphan_ = false;
    bool sidr_ = false;
    bool remote_known_ = false;  // remote_id_ is valid
    bool in_backlog_ = false;
    uint8_t retries_ = 0, max_retries_ = 0;
    Duration response_time_ = 0;  // one transmission of ours waits so long
    Duration linger_ = 0;         // Answered and nobody's: the peer repeats its request within this time
    Instant deadline_ = kNever;
    ConnectionInfo info_;
    Mad last_{};  // REQ, REP, RTU, DREQ, SIDR_REQ or final answer: what is repeated
};

}  // namespace rocemu::cm
