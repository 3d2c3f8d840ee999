// SPDX-License-Identifier: BSD-3-Clause
// The active side: connect, the REP, confirm. Read IBTA volume 1, 12.9.7.1 (active state diagram) and 12.10.
#include "cm/connection.h"
#include "cm/timing.h"

namespace rocemu::cm {

Status Connection::connect(Instant now, const ConnectParams& p, Outbox& out) {
    if (p.private_data.size() > Req::kPrivateDataSize - IpHeader::kSize || p.retry_count > 7 || p.rnr_retry_count > 7 ||
        p.path_mtu < 1 || p.path_mtu > 5 || p.packet_lifetime > 31 || p.local_qpn > 0xffffff ||
        p.starting_psn > 0xffffff)
        return Status::InvalidArgument;

    info_.active = true;
    info_.transport = p.transport;
    info_.port_space = p.target.port_space;
    info_.service_port = p.target.destination_port;
    info_.ip = p.target.ip;
    info_.path = p.path;
    info_.local_qpn = p.local_qpn;
    info_.local_psn = p.starting_psn;
    info_.responder_resources = p.responder_resources;
    info_.initiator_depth = p.initiator_depth;
    info_.flow_control = p.flow_control;
    info_.retry_count = p.retry_count;
    info_.rnr_retry_count = p.rnr_retry_count;
    info_.path_mtu = p.path_mtu;
    info_.packet_lifetime = p.packet_lifetime;
    info_.ack_timeout = ack_timeout_of(config_->ack_delay, p.packet_lifetime);
    cookie_ = p.cookie;
    response_time_ = response_time(config_->response_timeout, p.packet_lifetime);

    Req req;
    req.local_comm_id = id_;
    req.service_id = service_id_of({p.target.port_space, p.target.destination_port});
    req.local_ca_guid = local_ca_guid_;
    req.local_qkey = p.qkey;
    req.local_qpn = p.local_qpn;
    req.responder_resources = p.responder_resources;
    req.initiator_depth = p.initiator_depth;
    req.remote_cm_response_timeout = config_->response_timeout;
    req.local_cm_response_timeout = config_->response_timeout;
    req.transport_service = static_cast<uint8_t>(p.transport);
    req.extended_transport = p.transport == Transport::Xrc ? 1 : 0;
    req.end_to_end_flow_control = p.flow_control;
    req.starting_psn = p.starting_psn;
    req.retry_count = p.retry_count;
    req.partition_key = p.path.pkey;
    req.path_mtu = p.path_mtu;
    req.rnr_retry_count = p.rnr_retry_count;
    req.max_cm_retries = config_->max_cm_retries;
    req.srq = p.srq;
    // RoCE has no LIDs: the recorded peer writes the permissive LID.
    req.primary.local_lid = req.primary.remote_lid = 0xffff;
    req.primary.local_gid = p.path.local_gid;
    req.primary.remote_gid = p.path.remote_gid;
    req.primary.flow_label = p.path.flow_label;
    req.primary.packet_rate = config_->packet_rate;
    req.primary.traffic_class = p.path.traffic_class;
    req.primary.hop_limit = p.path.hop_limit;
    req.primary.sl = p.path.sl;
    req.primary.local_ack_timeout = info_.ack_timeout;
    p.target.ip.write(req.private_data);
    fill(req.private_data, p.private_data, IpHeader::kSize);

    start_request(now, State::ReqSent, make_mad(transaction_, req), out);
    return Status::Ok;
}

void Connection::handle_rep(const Rep& rep, Outbox& out) {
    if (remote_known_ && remote_id_ != rep.local_comm_id) {
        ++out.counters.drop_unknown_id;
        return;
    }
    switch (info_.state) {
        case State::ReqSent:
        case State::MraReqRcvd: {
            set_remote_id(rep.local_comm_id);
            info_.remote_ca_guid = rep.local_ca_guid;
            info_.remote_qpn = qpn_of(rep, info_.transport);
            info_.remote_psn = rep.starting_psn;
            info_.qkey = rep.local_qkey;
            // What the peer wants under way is what we must serve, and the other way round.
            info_.responder_resources = rep.initiator_depth;
            info_.initiator_depth = rep.responder_resources;
            info_.flow_control = rep.end_to_end_flow_control;
            info_.rnr_retry_count = rep.rnr_retry_count;
            info_.srq = rep.srq;
            info_.ack_timeout = ack_timeout_of(rep.target_ack_delay, info_.packet_lifetime);
            set_state(State::RepRcvd);
            give_private_data(add_event(out, EventKind::ConnectResponse), rep.private_data);
            return;
        }
        case State::RepRcvd:
        case State::MraRepSent:
            // Our consumer is slow and the peer repeats itself: ask it for time.
            ++out.counters.rx_duplicates;
            send_mra(MessageKind::Rep, out);
            return set_state(State::MraRepSent);
        case State::Established:
            ++out.counters.rx_duplicates;
            // IBTA 12.9.7.1: a REP in Established means that our RTU was lost.
            if (info_.active) repeat(out);
            return;
        case State::Answered:
            ++out.counters.rx_duplicates;
            if (info_.active) repeat(out);  // our REJ was lost
            return;
        default:
            ++out.counters.drop_wrong_state;
    }
}

void Connection::refuse_stale_rep(const Rep& rep, Outbox& out) {
    if (!in(State::ReqSent, State::MraReqRcvd)) return;
    set_remote_id(rep.local_comm_id);
    set_state(State::RepRcvd);
    send_rej(make_rej(RejectReason::StaleConnection), out);
    add_event(out, EventKind::Rejected, static_cast<int32_t>(RejectReason::StaleConnection));
    set_state(State::Closed);
}

Status Connection::confirm(Bytes private_data, Outbox& out) {
    if (!in(State::RepRcvd, State::MraRepSent)) return Status::InvalidState;
    Rtu rtu{.local_comm_id = id_, .remote_comm_id = remote_id_};
    if (private_data.size() > rtu.private_data.size()) return Status::InvalidArgument;
    fill(rtu.private_data, private_data);
    last_ = make_mad(transaction_, rtu);
    set_state(State::Established);
    out.send(info_.path, last_);
    return Status::Ok;
}

}  // namespace rocemu::cm
