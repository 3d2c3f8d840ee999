// SPDX-License-Identifier: BSD-3-Clause
// The passive side: the REQ, accept, the RTU. Read IBTA volume 1, 12.9.7.2 (passive state diagram) and 12.10.
#include "cm/connection.h"
#include "cm/timing.h"

namespace rocemu::cm {

void Connection::handle_req(const RxMad& rx, const Req& req, const IpHeader& ip, BindingId binding, uint64_t cookie,
                            Outbox& out) {
    adopt_path(rx, ip, binding, cookie);
    set_remote_id(req.local_comm_id);
    // Answers and data take the path that the active side describes.
    info_.path.flow_label = req.primary.flow_label;
    info_.path.traffic_class = req.primary.traffic_class;
    info_.path.hop_limit = req.primary.hop_limit;
    info_.path.sl = req.primary.sl;
    info_.path.pkey = req.partition_key;
    info_.transport = static_cast<Transport>(req.transport_service);
    if (const auto service = ip_service_of(req.service_id)) {
        info_.port_space = service->port_space;
        info_.service_port = service->port;
    }
    info_.remote_ca_guid = req.local_ca_guid;
    info_.remote_qpn = req.local_qpn;
    info_.remote_psn = req.starting_psn;
    info_.qkey = req.local_qkey;
    info_.responder_resources = req.initiator_depth;
    info_.initiator_depth = req.responder_resources;
    info_.flow_control = req.end_to_end_flow_control;
    info_.retry_count = req.retry_count;
    info_.rnr_retry_count = req.rnr_retry_count;
    info_.srq = req.srq;
    info_.path_mtu = req.path_mtu;
    // The REQ holds twice the packet lifetime plus the peer's ACK delay; take one power of two off again.
    info_.packet_lifetime = req.primary.local_ack_timeout > 0 ? req.primary.local_ack_timeout - 1 : 0;
    info_.ack_timeout = ack_timeout_of(config_->ack_delay, info_.packet_lifetime);
    response_time_ = response_time(req.local_cm_response_timeout, info_.packet_lifetime);
    linger_ = 3 * response_time(req.remote_cm_response_timeout, info_.packet_lifetime);
    max_retries_ = req.max_cm_retries;
    set_state(State::ReqRcvd);
    if (Event* event = add_event(out, EventKind::ConnectRequest)) {
        event->binding = binding;
        give_private_data(event, Bytes(req.private_data).subspan(IpHeader::kSize));
    }
}

void Connection::handle_req_again(Instant now, Outbox& out) {
    ++out.counters.rx_duplicates;
    switch (info_.state) {
        case State::ReqRcvd:
        case State::MraReqSent:
            send_mra(MessageKind::Req, out);
            return set_state(State::MraReqSent);
        case State::RepSent:
        case State::MraRepRcvd:
            return repeat(out);  // the REP was lost; its own timer goes on
        case State::Answered:
            linger(now);
            return repeat(out);
        case State::Timewait:
            // IBTA 12.9.7.2: these ids belong to a connection that is over.
            return send_rej(make_rej(RejectReason::StaleConnection), out);
        default:
            return;
    }
}

Status Connection::accept(Instant now, const AcceptParams& p, Outbox& out) {
    if (!in(State::ReqRcvd, State::MraReqSent) || sidr_) return Status::InvalidState;
    if (p.private_data.size() > Rep::kPrivateDataSize || p.rnr_retry_count > 7 || p.local_qpn > 0xffffff ||
        p.starting_psn > 0xffffff)
        return Status::InvalidArgument;
    info_.local_qpn = p.local_qpn;
    info_.local_psn = p.starting_psn;
    info_.responder_resources = p.responder_resources;
    info_.initiator_depth = p.initiator_depth;
    info_.flow_control = p.flow_control;
    cookie_ = p.cookie;

    Rep rep;
    rep.local_comm_id = id_;
    rep.remote_comm_id = remote_id_;
    rep.local_qkey = p.qkey;
    const bool xrc = info_.transport == Transport::Xrc;
    (xrc ? rep.local_eecn : rep.local_qpn) = p.local_qpn;  // see qpn_of
    rep.starting_psn = p.starting_psn;
    rep.responder_resources = p.responder_resources;
    rep.initiator_depth = p.initiator_depth;
    rep.target_ack_delay = config_->ack_delay;
    rep.end_to_end_flow_control = p.flow_control;
    rep.rnr_retry_count = p.rnr_retry_count;
    rep.srq = p.srq || xrc;  // an XRC target receives into shared receive queues only
    rep.local_ca_guid = local_ca_guid_;
    fill(rep.private_data, p.private_data);
    start_request(now, State::RepSent, make_mad(transaction_, rep), out);
    return Status::Ok;
}

void Connection::handle_rtu(const Rtu& rtu, Outbox& out) {
    if (in(State::RepSent, State::MraRepRcvd)) {
        set_state(State::Established);
        give_private_data(add_event(out, EventKind::Established), rtu.private_data);
    } else if (info_.state == State::Established && !info_.active) {
        ++out.counters.rx_duplicates;
    } else {
        ++out.counters.drop_wrong_state;
    }
}

Status Connection::established(Outbox& out) {
    if (info_.state == State::Established) return Status::Ok;
    // IBTA 12.9.7.2: a "communication established" of the QP replaces an RTU that was lost or is late.
    if (!in(State::RepSent, State::MraRepRcvd)) return Status::InvalidState;
    set_state(State::Established);
    add_event(out, EventKind::Established);
    return Status::Ok;
}

}  // namespace rocemu::cm
