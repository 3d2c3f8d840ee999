// SPDX-License-Identifier: BSD-3-Clause
// modify_qp and query_qp. Transitions, masks and ranges are the core's to judge (lib/transport); here is what needs the
// device: port, P_Key index, path MTU, and the way from an address handle to the headers on the wire.
// Read the ibv_modify_qp man page. An invalid attribute modifies nothing.

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "control/log.h"
#include "control/qp_attr_record.h"
#include "control/services/services.h"
#include "control/services/xrc_service.h"
#include "net/address.h"

namespace rocemu::control {
namespace {

struct Modification {
    std::shared_ptr<Session> session;
    uint32_t qpn = 0, shard = 0, mask = 0;
    transport::QpAttr attr;
    std::optional<wire::AddressVector> route;
    const char* bad_attr = nullptr;
    int error = 0;
    transport::QpAttr after;
};

struct Place {
    uint32_t device, shard;
};
// Where a QP of the session is, or an XRC target that it has a handle of.
std::optional<Place> find_qp(const Session& session, uint32_t qpn) {
    if (const auto it = session.qps.find(qpn); it != session.qps.end()) return Place{it->second.device, it->second.shard};
    if (const auto domain = find_target(session, qpn)) return Place{domain->device, domain->shard};
    return std::nullopt;
}

void refuse(const Modification& m, const char* why, int error, Replier& reply) {
    log::info("{}: modify_qp {:#x}: {} ({})", m.session->name(), m.qpn, why, std::strerror(error));
    reply.fail(error);
}

// nullptr, or which attribute does not fit the device.
const char* fault_of(const Device& device, const Modification& m) {
    namespace mask = qp_attr_mask;
    const transport::QpAttr& a = m.attr;
    if ((m.mask & mask::kPort) && a.port_num != 1) return "port_num must be 1";
    if ((m.mask & mask::kAv) && a.ah.port_num != 1) return "ah_attr.port_num must be 1";
    if ((m.mask & mask::kPkeyIndex) && a.pkey_index != 0) return "pkey_index must be 0";
    if ((m.mask & mask::kPathMtu) && (a.path_mtu < 1 || a.path_mtu > device.active_mtu()))
        return "path_mtu is not 256 to the active MTU of the port";
    if ((m.mask & mask::kRateLimit) && a.rate_limit > abi::kMaxRateLimit) return "rate_limit is above the device's";
    return nullptr;
}

net::AddressRequest address_of(const Modification& m, uint32_t remote_qpn) {
    net::AddressRequest r;
    r.is_global = m.attr.ah.is_global != 0;
    r.dgid.raw = m.attr.ah.dgid;
    r.sgid_index = m.attr.ah.sgid_index;
    r.flow_label = m.attr.ah.flow_label;
    r.traffic_class = m.attr.ah.traffic_class;
    r.hop_limit = m.attr.ah.hop_limit;
    r.sl = m.attr.ah.sl;
    r.local_qpn = m.qpn;
    r.remote_qpn = remote_qpn;
    return r;
}

void submit(Control& control, std::shared_ptr<Modification> m, Replier reply) {
    const auto session = m->session;
    control.call(
        session, m->shard,
        [m](engine::Shard& shard) {
            m->error =
                shard.modify_qp(m->qpn, m->attr, m->mask, m->route ? &*m->route : nullptr, &m->bad_attr, &m->after);
            // To RESET while payload jobs of the QP are out: the shard has stopped it, and asks for another turn.
            return m->error != EAGAIN;
        },
        [m, reply]() mutable {
            if (m->error != 0) return refuse(*m, m->bad_attr ? m->bad_attr : "not allowed", m->error, reply);
            abi::ModifyQpReply r;
            r.attr = record_of(m->after);
            reply.send(r);
        });
}

}  // namespace

void handle(Call& call, const abi::ModifyQpRequest& request) {
    Control& control = call.control;
    const auto place = find_qp(*call.session, request.qpn);
    if (!place) return call.reply.fail(EINVAL);
    Device& device = *control.devices[place->device];
    auto m = std::make_shared<Modification>();
    m->session = call.session;
    m->qpn = request.qpn;
    m->shard = place->shard;
    m->mask = request.mask;
    m->attr = attr_of(request.attr);
    if (const char* fault = fault_of(device, *m)) return refuse(*m, fault, EINVAL, call.reply);
    // IBTA 10.2.5: controlled Q_Keys are the administrator's: with one a program could talk to the connection managers.
    if ((m->mask & qp_attr_mask::kQkey) && (m->attr.qkey & 0x80000000) && call.session->peer.uid != 0)
        return refuse(*m, "qkey with the high bit set is for root", EPERM, call.reply);
    if (!(request.mask & qp_attr_mask::kAv)) return submit(control, std::move(m), call.reply);

    wire::AddressVector route;
    route.src_mac = device.mac();
    const uint32_t remote = request.mask & qp_attr_mask::kDestQpn ? m->attr.dest_qpn : 0;
    if (const auto error = net::assemble(device.gids(), address_of(*m, remote), route);
        error != net::AddressError::None)
        return refuse(*m, net::text_of(error), EINVAL, call.reply);
    m->route = route;
    control.resolver.resolve(
        device, route.dst_gid, [&control, m, reply = call.reply](int error, const wire::MacAddress& mac) mutable {
            if (error != 0) return refuse(*m, "ah_attr.grh.dgid: nobody answers for this address", error, reply);
            // The QP may be gone by now, and its number somebody else's.
            if (m->session->ending || !find_qp(*m->session, m->qpn)) return reply.fail(EINVAL);
            m->route->dst_mac = mac;
            submit(control, m, reply);
        });
}

void handle(Call& call, const abi::QueryQpRequest& request) {
    const auto place = find_qp(*call.session, request.qpn);
    if (!place) return call.reply.fail(EINVAL);
    auto attr = std::make_shared<transport::QpAttr>();
    auto found = std::make_shared<bool>(false);
    call.control.call(
        call.session, place->shard,
        [attr, found, qpn = request.qpn](engine::Shard& shard) {
            *found = shard.query_qp(qpn, attr.get());
            return true;
        },
        [attr, found, reply = call.reply]() mutable {
            if (!*found) return reply.fail(EINVAL);
            abi::QueryQpReply r;
            r.attr = record_of(*attr);
            reply.send(r);
        });
}

}  // namespace rocemu::control
