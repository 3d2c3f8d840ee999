// SPDX-License-Identifier: BSD-3-Clause
// Service id resolution for UD: one question, one answer. Read IBTA volume 1, 12.11.
#include "cm/connection.h"
#include "cm/timing.h"

namespace rocemu::cm {

Status Connection::sidr_request(Instant now, const SidrRequestParams& p, Outbox& out) {
    SidrReq req;
    if (p.private_data.size() > req.private_data.size() - IpHeader::kSize || p.packet_lifetime > 31)
        return Status::InvalidArgument;
    sidr_ = true;
    info_.active = true;
    info_.port_space = p.target.port_space;
    info_.service_port = p.target.destination_port;
    info_.ip = p.target.ip;
    info_.path = p.path;
    info_.packet_lifetime = p.packet_lifetime;
    cookie_ = p.cookie;
    response_time_ = response_time(config_->response_timeout, p.packet_lifetime);

    req.request_id = id_;
    req.partition_key = p.path.pkey;
    req.service_id = service_id_of({p.target.port_space, p.target.destination_port});
    p.target.ip.write(req.private_data);
    fill(req.private_data, p.private_data, IpHeader::kSize);
    start_request(now, State::SidrReqSent, make_mad(transaction_, req), out);
    return Status::Ok;
}

void Connection::handle_sidr_rep(const SidrRep& rep, Outbox& out) {
    if (info_.state != State::SidrReqSent) {
        ++(info_.state == State::Closed ? out.counters.rx_duplicates : out.counters.drop_wrong_state);
        return;
    }
    info_.remote_qpn = rep.qpn;
    info_.qkey = rep.qkey;
    set_state(State::Closed);
    give_private_data(add_event(out, EventKind::SidrResult, static_cast<int32_t>(rep.status)), rep.private_data);
}

void Connection::handle_sidr_req(const RxMad& rx, const SidrReq& req, const IpHeader& ip, BindingId binding,
                                 uint64_t cookie, Outbox& out) {
    sidr_ = true;
    adopt_path(rx, ip, binding, cookie);
    set_remote_id(req.request_id);
    if (const auto service = ip_service_of(req.service_id)) {
        info_.port_space = service->port_space;
        info_.service_port = service->port;
    }
    // A SIDR_REQ does not say how long its sender waits: assume what we would.
    linger_ = 3 * response_time(config_->response_timeout, 16);
    set_state(State::SidrReqRcvd);
    if (Event* event = add_event(out, EventKind::SidrRequest)) {
        event->binding = binding;
        give_private_data(event, Bytes(req.private_data).subspan(IpHeader::kSize));
    }
}

Status Connection::sidr_reply(Instant now, const SidrReplyParams& p, Outbox& out) {
    if (info_.state != State::SidrReqRcvd) return Status::InvalidState;
    SidrRep rep;
    if (p.private_data.size() > rep.private_data.size() || p.qpn > 0xffffff) return Status::InvalidArgument;
    info_.local_qpn = p.qpn;
    rep.request_id = remote_id_;
    rep.status = p.status;
    rep.qpn = p.qpn;
    rep.service_id = service_id_of({info_.port_space, info_.service_port});
    rep.qkey = p.qkey;
    fill(rep.private_data, p.private_data);
    answer(now, make_mad(transaction_, rep), out);
    return Status::Ok;
}

}  // namespace rocemu::cm
