// SPDX-License-Identifier: BSD-3-Clause
// The QP attributes that follow from an id's connection, for each state librdmacm brings its QP to.
// Read rdma_init_qp_attr(3), IBTA volume 1, 12.7 (which field of a message is which attribute).
#include <algorithm>
#include <cerrno>

#include "base/verbs_types.h"
#include "control/cm_service.h"
#include "control/cm_values.h"
#include "control/services/cm_service_parts.h"

namespace rocemu::control {
namespace {

namespace mask = qp_attr_mask;
constexpr uint32_t kRemoteWrite = 1 << 1, kRemoteRead = 1 << 2, kRemoteAtomic = 1 << 3;

void init(const CmIdObject& object, const cm::ConnectionInfo* info, abi::CmInitQpAttrReply& r) {
    r.mask = mask::kState | mask::kPkeyIndex | mask::kPort;
    r.attr.port_num = 1;
    if (object.datagram) {
        r.mask |= mask::kQkey;
        r.attr.qkey = kUdpQkey;
        return;
    }
    r.mask |= mask::kAccessFlags;
    if (info == nullptr) return;  // before the connection: nobody may do anything yet
    r.attr.access_flags = kRemoteWrite;
    if (info->responder_resources != 0) r.attr.access_flags |= kRemoteRead | kRemoteAtomic;
}

void ready_to_receive(const Device& device, const cm::ConnectionInfo& info, uint8_t max_rd_atomic,
                      abi::CmInitQpAttrReply& r) {
    const auto ah = address_handle(device, info.path);
    abi::QpAttrRecord& a = r.attr;
    r.mask = mask::kState | mask::kAv | mask::kPathMtu | mask::kDestQpn | mask::kRqPsn;
    std::copy(std::begin(ah.dgid), std::end(ah.dgid), a.dgid);
    a.flow_label = ah.flow_label;
    a.sgid_index = ah.sgid_index;
    a.hop_limit = ah.hop_limit;
    a.traffic_class = ah.traffic_class;
    a.sl = ah.sl;
    a.is_global = 1;
    a.ah_port = 1;
    a.path_mtu = info.path_mtu;
    a.dest_qpn = info.remote_qpn;
    // IBTA 12.7.31: the starting PSN that a side names is the one its peer begins to send with.
    a.rq_psn = info.local_psn;
    if (info.transport == cm::Transport::Uc) return;
    r.mask |= mask::kMaxDestRdAtomic | mask::kMinRnrTimer;
    a.max_dest_rd_atomic = std::min(info.responder_resources, max_rd_atomic);
}

void ready_to_send(const CmIdObject& object, const cm::ConnectionInfo& info, uint8_t max_rd_atomic,
                   abi::CmInitQpAttrReply& r) {
    r.mask = mask::kState | mask::kSqPsn;
    r.attr.sq_psn = info.remote_psn;
    if (info.transport == cm::Transport::Uc) return;
    r.mask |= mask::kTimeout | mask::kRetryCnt | mask::kRnrRetry | mask::kMaxQpRdAtomic;
    r.attr.timeout = object.ack_timeout.value_or(info.ack_timeout);
    r.attr.retry_cnt = info.retry_count;
    r.attr.rnr_retry = info.rnr_retry_count;
    r.attr.max_rd_atomic = std::min(info.initiator_depth, max_rd_atomic);
}

}  // namespace

void handle(Call& call, const abi::CmInitQpAttrRequest& request) {
    const CmIdObject* object = cm_object(call, request.id);
    if (object == nullptr) return call.reply.fail(ENOENT);
    const Device* device = cm_device(call, *object);
    if (device == nullptr) return call.reply.fail(EINVAL);
    const auto found = object->connection == 0 ? cm::Result<cm::ConnectionInfo>{cm::Status::NotFound}
                                               : call.control.cm->manager().info(call.session->id, object->connection);
    cm::ConnectionInfo info = found.value;
    // The passive side chose its PSN with the id; lib/cm hears of it when the application accepts.
    if (!info.active) info.local_psn = object->starting_psn;
    const auto limit = static_cast<uint8_t>(std::min<int64_t>(call.control.config.limits.max_rd_atomic, 255));

    abi::CmInitQpAttrReply r;
    r.attr.state = request.state;
    const auto state = static_cast<QpState>(request.state);
    if (state == QpState::Init)
        init(*object, found.ok() ? &info : nullptr, r);
    else if (!found.ok() || object->datagram)
        return call.reply.fail(EINVAL);
    else if (state == QpState::Rtr)
        ready_to_receive(*device, info, limit, r);
    else if (state == QpState::Rts)
        ready_to_send(*object, info, limit, r);
    else
        return call.reply.fail(EINVAL);
    call.reply.send(r);
}

}  // namespace rocemu::control
