// SPDX-License-Identifier: BSD-3-Clause
// New requests from the wire: REQ and SIDR_REQ to listeners, in the order of checks of IBTA volume 1, 12.9.5 and
// 12.11; annex A11 for what a service id and the IP header say.
#include "cm/manager.h"

namespace rocemu::cm {

Connection* CmManager::admit(const RxMad& rx, Binding& binding) {
    const auto c = allocate(binding.owner, rx.local_ca_guid);
    if (!c.ok()) {
        ++out_.counters.rejected_no_resources;
        return nullptr;
    }
    ++binding.pending;
    c.value->count_in_backlog();
    return c.value;
}

void CmManager::on_req(Instant now, const RxMad& rx) {
    const Req req = Req::parse(rx.mad);
    const auto reject = [&](RejectReason reason) { refuse(rx, reason, MessageKind::Req, 0, req.local_comm_id); };

    // Answers go to where a packet came from; a REQ that names another place would aim them at somebody else.
    if (req.primary.local_gid != rx.path.remote_gid) {
        ++out_.counters.drop_wrong_peer;
        return;
    }
    if (Connection* c = table_.find_remote(req.local_comm_id, req.local_ca_guid, rx.path, false)) {
        c->handle_req_again(now, out_);
        table_.settle(*c);
        return;
    }
    const auto transport = static_cast<Transport>(req.transport_service);
    const bool known = transport == Transport::Rc || transport == Transport::Uc ||
                       (transport == Transport::Xrc && req.extended_transport == 1);
    if (!known) return reject(RejectReason::InvalidTransportType);
    if (req.primary.remote_gid != rx.path.local_gid) return reject(RejectReason::InvalidGid);
    // IBTA 12.6.7 code 14: RoCE has the service levels 0 to 7 (annexes A16, A17), and no answer could be sent with
    // others.
    if (req.primary.sl > 7) return reject(RejectReason::InvalidSl);
    // IBTA 12.6.7 code 26: no QP could be brought to RTR with it.
    if (req.path_mtu < 1 || req.path_mtu > 5) return reject(RejectReason::InvalidMtu);

    const auto service = ip_service_of(req.service_id);
    const auto ip = IpHeader::parse(req.private_data);
    Binding* binding = nullptr;
    if (service && !ip) return reject(RejectReason::ConsumerDefined);  // A11: an IP header of another version
    if (service && service->port_space != PortSpace::Udp) binding = bindings_.find_listener(*service, ip->destination);
    if (binding == nullptr) {
        ++out_.counters.rejected_no_listener;
        return reject(RejectReason::InvalidServiceId);
    }
    if (binding->params.transport != transport) {
        // IBTA 12.6.7 code 9: the program could not accept it with its QPs.
        ++out_.counters.rejected_wrong_transport;
        return reject(RejectReason::InvalidTransportType);
    }
    if (Connection* stale = table_.find_remote_qp(req.local_qpn, req.local_ca_guid, rx.path)) {
        // IBTA 12.9.8.3.1: the peer uses that QP anew, so the old connection is dead; it may ask again.
        ++out_.counters.rejected_stale;
        leave_backlog(*stale);
        stale->supersede(now, out_);
        table_.settle(*stale);
        return reject(RejectReason::StaleConnection);
    }
    if (binding->pending >= binding->backlog) {
        ++out_.counters.drop_backlog;  // the recorded peer does not answer either: its REQ comes again
        return;
    }
    Connection* c = admit(rx, *binding);
    if (c == nullptr) return reject(RejectReason::NoResources);
    c->handle_req(rx, req, *ip, binding->id, binding->params.cookie, out_);
    table_.settle(*c);
}

void CmManager::refuse_sidr(const RxMad& rx, const SidrReq& req, SidrStatus status) {
    const SidrRep rep{.request_id = req.request_id, .status = status, .service_id = req.service_id};
    out_.send(rx.path, make_mad(MadHeader::parse(rx.mad).transaction_id, rep));
}

void CmManager::on_sidr_req(Instant now, const RxMad& rx) {
    const SidrReq req = SidrReq::parse(rx.mad);
    if (Connection* c = table_.find_remote(req.request_id, 0, rx.path, true)) {
        c->handle_req_again(now, out_);
        table_.settle(*c);
        return;
    }
    const auto service = ip_service_of(req.service_id);
    const auto ip = IpHeader::parse(req.private_data);
    Binding* binding = nullptr;
    if (service && ip && service->port_space != PortSpace::Tcp)
        binding = bindings_.find_listener(*service, ip->destination);
    if (binding == nullptr) {
        ++out_.counters.rejected_no_listener;
        return refuse_sidr(rx, req, SidrStatus::ServiceNotSupported);
    }
    if (binding->params.transport) {
        ++out_.counters.rejected_wrong_transport;
        return refuse_sidr(rx, req, SidrStatus::ServiceNotSupported);
    }
    if (binding->pending >= binding->backlog) {
        ++out_.counters.drop_backlog;
        return;
    }
    Connection* c = admit(rx, *binding);
    if (c == nullptr) return refuse_sidr(rx, req, SidrStatus::NoQp);
    c->handle_sidr_req(rx, req, *ip, binding->id, binding->params.cookie, out_);
    table_.settle(*c);
}

void CmManager::on_sidr_rep(const RxMad& rx) {
    const SidrRep rep = SidrRep::parse(rx.mad);
    if (Connection* c = find_for(rx, rep.request_id, 0, true)) {
        c->handle_sidr_rep(rep, out_);
        table_.settle(*c);
    }
}

}  // namespace rocemu::cm
