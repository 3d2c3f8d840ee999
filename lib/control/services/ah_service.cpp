// SPDX-License-Identifier: BSD-3-Clause
// Address handles. One is resolved when it is created, and every shard knows it before the program does: a WQE of any QP
// may name it. Read IBTA volume 1, 11.2.2.1 and the ibv_create_ah man page.

#include <cerrno>
#include <cstring>

#include "control/log.h"
#include "control/services/services.h"
#include "net/address.h"

namespace rocemu::control {
namespace {

// The UDP source port must not change within an ordered flow, and flows should spread over paths: without a flow label
// the destination stands in for it.
uint32_t flow_label_of(const abi::CreateAhRequest& r) {
    if (r.flow_label != 0) return r.flow_label;
    uint32_t label = 0;
    for (const uint8_t byte : r.dgid) label = label * 31 + byte;
    return (label ^ label >> 20) & 0xfffff;
}

net::AddressRequest address_of(const abi::CreateAhRequest& r) {
    net::AddressRequest a;
    a.is_global = r.is_global != 0;
    std::memcpy(a.dgid.raw.data(), r.dgid, sizeof r.dgid);
    a.sgid_index = r.sgid_index;
    a.flow_label = r.flow_label;
    a.traffic_class = r.traffic_class;
    a.hop_limit = r.hop_limit;
    a.sl = r.sl;
    a.connected = false;
    return a;
}

// The handle enters the shards; its number becomes the program's when all have it.
void publish(Control& control, const std::shared_ptr<Session>& session, uint32_t pd, uint32_t device,
             const wire::AddressVector& route, Replier reply) {
    const auto id = session->ah_ids.take();
    if (!id) return reply.fail(ENOMEM);
    PdObject& owner = session->pds.at(pd);
    session->ahs.emplace(*id, AhObject{owner.context, pd});
    ++owner.users;
    const engine::AddressRecord record{wire::HeaderTemplate(route), pd, device, route.dst_gid};
    control.call_all(
        session,
        [record, number = *id, session_id = session->id](engine::Shard& shard, uint32_t) {
            shard.create_ah(session_id, number, record);
            return true;
        },
        [number = *id, reply]() mutable {
            abi::CreateAhReply r;
            r.ah = number;
            reply.send(r);
        });
}

}  // namespace

void handle(Call& call, const abi::CreateAhRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto refuse = [&session](const char* why, int error, Replier reply) {
        log::info("{}: create_ah: {} ({})", session.name(), why, std::strerror(error));
        reply.fail(error);
    };
    const auto pd = session.pds.find(request.pd);
    if (pd == session.pds.end()) return call.reply.fail(EINVAL);
    if (request.port_num != 1) return refuse("port_num must be 1", EINVAL, call.reply);
    if (session.ahs.size() >= static_cast<size_t>(control.config.limits.max_ah)) return call.reply.fail(ENOMEM);
    const uint32_t device_id = session.contexts.at(pd->second.context).device;
    Device& device = *control.devices[device_id];
    wire::AddressVector route;
    route.src_mac = device.mac();
    if (const auto error = net::assemble(device.gids(), address_of(request), route); error != net::AddressError::None)
        return refuse(net::text_of(error), EINVAL, call.reply);
    route.udp_source_port = wire::udp_source_port(flow_label_of(request), 0, 0);
    control.resolver.resolve(device, route.dst_gid,
                             [&control, session = call.session, pd = request.pd, device_id, route, refuse,
                              reply = call.reply](int error, const wire::MacAddress& mac) mutable {
                                 // The PD may have gone while the neighbour was asked.
                                 if (session->ending || !session->pds.contains(pd)) return reply.fail(EINVAL);
                                 if (error != 0) return refuse("grh.dgid: nobody answers for it", error, reply);
                                 route.dst_mac = mac;
                                 publish(control, session, pd, device_id, route, reply);
                             });
}

// A device of hardware has the address in the WQE: programs destroy a handle, and the QP, as soon as they have posted (mckey
// does). So what was posted before goes out first; a session that always has something to send waits for this many turns.
constexpr uint32_t kTurnsForPosted = 64;

void handle(Call& call, const abi::DestroyAhRequest& request) {
    Session& session = *call.session;
    const auto it = session.ahs.find(request.ah);
    if (it == session.ahs.end()) return call.reply.fail(EINVAL);
    if (const auto pd = session.pds.find(it->second.pd); pd != session.pds.end()) --pd->second.users;
    session.ahs.erase(it);
    call.control.call_all(
        call.session,
        [number = request.ah, id = session.id, turns = kTurnsForPosted](engine::Shard& shard, uint32_t) mutable {
            if (shard.hurry_posted(id) && turns-- != 0) return false;
            shard.destroy_ah(id, number);
            return true;
        },
        [number = request.ah, session = call.session, reply = call.reply]() mutable {
            session->ah_ids.give_back(number);
            reply.send(abi::DestroyAhReply{});
        });
}

}  // namespace rocemu::control
