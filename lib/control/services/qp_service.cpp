// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs: create and destroy. Read IBTA volume 1, 11.2.4 and the ibv_create_qp man page: capacities that are
// returned are at least what was asked for.
#include "control/services/qp_service.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "abi/queues.h"
#include "control/log.h"
#include "control/services/services.h"
#include "control/services/xrc_service.h"
#include "engine/flows.h"
#include "wire/eth.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kBlockSelfMulticast = 1 << 1;  // IBV_QP_CREATE_BLOCK_SELF_MCAST_LB

struct QueueSizes {
    transport::QpCaps caps;  // as returned
    uint32_t sq_stride = 0, rq_stride = 0;
    uint64_t sq_bytes = 0, rq_bytes = 0;
};

// nullptr, or which capacity is too large.
const char* size_queues(const config::LimitOptions& limits, abi::CreateQpRequest r, bool own_rq, QueueSizes& out) {
    // ibv_create_qp(3): without a receive queue of its own its capacities are ignored.
    if (!own_rq) r.max_recv_wr = r.max_recv_sge = 0;
    if (r.max_send_wr > limits.max_qp_wr) return "max_send_wr";
    if (r.max_recv_wr > limits.max_qp_wr) return "max_recv_wr";
    if (r.max_send_sge > limits.max_sge) return "max_send_sge";
    if (r.max_recv_sge > limits.max_sge) return "max_recv_sge";
    if (r.max_inline_data > limits.max_inline) return "max_inline_data";
    out.caps.max_send_wr = std::bit_ceil(std::max(r.max_send_wr, 1u));
    out.caps.max_recv_wr = std::bit_ceil(std::max(r.max_recv_wr, 1u));
    out.caps.max_send_sge = std::max(r.max_send_sge, 1u);
    out.caps.max_recv_sge = std::max(r.max_recv_sge, 1u);
    out.sq_stride = abi::sq_stride(out.caps.max_send_sge, r.max_inline_data);
    out.rq_stride = abi::rq_stride(out.caps.max_recv_sge);
    // The room that the stride has anyway, but not more than a query of the device promises.
    const auto room = static_cast<uint32_t>(out.sq_stride - sizeof(abi::SqWqe));
    out.caps.max_inline_data = std::max(r.max_inline_data, std::min(room, static_cast<uint32_t>(limits.max_inline)));
    out.sq_bytes = queue_bytes(out.caps.max_send_wr, out.sq_stride);
    out.rq_bytes = own_rq ? queue_bytes(out.caps.max_recv_wr, out.rq_stride) : 0;
    return nullptr;
}

engine::QpSetup setup_of(const Control& control, const Session& session, const QpObject& qp, uint32_t qpn,
                         const abi::CreateQpRequest& request, const QueueSizes& sizes, const SrqObject* srq) {
    engine::QpSetup s;
    s.config = limits_of(control, qp.device);
    s.config.qpn = qpn;
    s.config.type = qp.type;
    s.config.caps = sizes.caps;
    s.config.sq_sig_all = request.sq_sig_all != 0;
    s.config.pd = qp.pd;
    s.config.send_window_wqes = std::min(s.config.send_window_wqes, sizes.caps.max_send_wr);
    if (srq != nullptr) {
        s.config.has_srq = true;
        s.config.recv_pd = srq->pd;
        s.config.caps.max_recv_sge = srq->max_sge;
        s.srq = qp.srq;
    } else if (qp.type == QpType::XrcSend) {
        s.config.recv_window_wqes = 1;
    } else {
        s.config.recv_window_wqes = std::min(s.config.recv_window_wqes, sizes.caps.max_recv_wr);
        s.rq = view_of(qp.block.address + sizes.sq_bytes, sizes.caps.max_recv_wr, sizes.rq_stride);
    }
    s.device = qp.device;
    s.session = session.id;
    s.slot = qp.slot;
    s.send_cq = qp.send_cq;
    s.recv_cq = qp.recv_cq;
    s.sq = view_of(qp.block.address, sizes.caps.max_send_wr, sizes.sq_stride);
    s.cookie = request.cookie;
    s.context = qp.context;
    s.blocks_own_groups = request.create_flags & kBlockSelfMulticast;
    return s;
}

// Numbers and memory of a new QP; 0 or errno, and nothing is kept then.
int acquire(Control& control, Session& session, uint64_t bytes, QpObject& qp, uint32_t& qpn) {
    const auto slot = session.slots.take();
    if (!slot) return ENOMEM;
    const auto number = control.qpns.take(qp.shard);
    const int error = number ? session.arena->allocate(bytes, qp.block) : ENOMEM;
    if (error != 0) {
        session.slots.give_back(*slot);
        if (number) control.qpns.give_back(*number);
        return error;
    }
    qp.slot = *slot;
    qpn = *number;
    return 0;
}

bool type_supported(uint32_t type) {
    return type == static_cast<uint32_t>(QpType::Rc) || type == static_cast<uint32_t>(QpType::Uc) ||
           type == static_cast<uint32_t>(QpType::Ud) || type == static_cast<uint32_t>(QpType::XrcSend) ||
           type == static_cast<uint32_t>(QpType::RawPacket);
}

// May this process send any frame, and be sent any? 0 or errno. On a real port this is what CAP_NET_RAW is for.
int raw_refusal(const Session& session, const Device& device) {
    if (!device.raw_packets()) return EOPNOTSUPP;
    return device.fabric_nic() || session.peer.uid == 0 ? 0 : EPERM;
}

void release_users(Session& session, const QpObject& qp) {
    if (const auto pd = session.pds.find(qp.pd); pd != session.pds.end()) --pd->second.users;
    for (const uint32_t id : {qp.send_cq, qp.recv_cq})
        if (const auto cq = session.cqs.find(id); cq != session.cqs.end()) --cq->second.users;
    if (const auto srq = session.srqs.find(qp.srq); srq != session.srqs.end()) --srq->second.users;
}

}  // namespace

transport::QpConfig limits_of(const Control& control, uint32_t device) {
    const config::LimitOptions& limits = control.config.limits;
    transport::QpConfig c;
    c.max_dest_rd_atomic = c.max_rd_atomic = static_cast<uint32_t>(limits.max_rd_atomic);
    c.window_packets = static_cast<uint32_t>(limits.window_packets);
    c.reorder_packets = static_cast<uint32_t>(limits.reorder_packets);
    c.reorder_time = limits.reorder_us * kMicrosecond;
    c.max_path_mtu = control.devices[device]->active_mtu();
    c.max_frame = control.devices[device]->mtu() + wire::EthHeader::kSize + wire::VlanTag::kSize;
    return c;
}

void handle(Call& call, const abi::CreateQpRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    if (request.type == static_cast<uint32_t>(QpType::XrcRecv)) return create_target(call, request);
    // IBTA A14: an XRC initiator receives nothing.
    const bool receives = request.type != static_cast<uint32_t>(QpType::XrcSend);
    const auto pd = session.pds.find(request.pd);
    const auto send_cq = session.cqs.find(request.send_cq), recv_cq = session.cqs.find(request.recv_cq);
    if (pd == session.pds.end() || send_cq == session.cqs.end() || (receives && recv_cq == session.cqs.end()))
        return call.reply.fail(EINVAL);
    const uint32_t context = pd->second.context;
    if (send_cq->second.context != context || (receives && recv_cq->second.context != context))
        return call.reply.fail(EINVAL);
    if (!type_supported(request.type)) {
        log::info("{}: create_qp: type {} is not supported yet", session.name(), request.type);
        return call.reply.fail(EOPNOTSUPP);
    }
    if (request.create_flags & ~kBlockSelfMulticast) return call.reply.fail(EOPNOTSUPP);
    SrqObject* srq = nullptr;
    if (request.srq != abi::kNoSrq) {
        const auto it = session.srqs.find(request.srq);
        // An XRC SRQ is found by XRC targets only, by the number in their packets.
        if (it == session.srqs.end() || it->second.context != context || it->second.xrcd != 0 || !receives)
            return call.reply.fail(EINVAL);
        srq = &it->second;
    }
    const bool own_rq = receives && srq == nullptr;
    QueueSizes sizes;
    if (const char* fault = size_queues(control.config.limits, request, own_rq, sizes)) {
        log::info("{}: create_qp: {} is above the limit of the device", session.name(), fault);
        return call.reply.fail(EINVAL);
    }
    if (session.qps.size() >= static_cast<size_t>(control.config.limits.max_qp)) return call.reply.fail(ENOMEM);

    QpObject qp;
    qp.context = context;
    qp.device = session.contexts.at(context).device;
    const bool raw = request.type == static_cast<uint32_t>(QpType::RawPacket);
    if (const int refusal = raw ? raw_refusal(session, *control.devices[qp.device]) : 0; refusal != 0)
        return call.reply.fail(refusal);
    // Frames come to one shard only.
    if (raw && srq != nullptr && srq->shard != engine::kRawShard) return call.reply.fail(EOPNOTSUPP);
    qp.pd = request.pd;
    qp.send_cq = request.send_cq;
    qp.recv_cq = receives ? request.recv_cq : 0;
    qp.type = static_cast<QpType>(request.type);
    qp.cookie = request.cookie;
    qp.srq = request.srq;
    qp.shard = srq != nullptr ? srq->shard : raw ? engine::kRawShard : control.qpns.least_loaded();
    uint32_t qpn = 0;
    if (const int error = acquire(control, session, sizes.sq_bytes + sizes.rq_bytes, qp, qpn)) return call.reply.fail(error);
    ++pd->second.users;
    ++send_cq->second.users;
    if (receives) ++recv_cq->second.users;
    if (srq != nullptr) ++srq->users;
    session.qps.emplace(qpn, qp);

    abi::CreateQpReply reply;
    reply.qpn = qpn;
    reply.slot = qp.slot;
    reply.shard = qp.shard;
    reply.max_send_wr = sizes.caps.max_send_wr;
    reply.max_recv_wr = own_rq ? sizes.caps.max_recv_wr : 0;
    reply.max_send_sge = sizes.caps.max_send_sge;
    reply.max_recv_sge = own_rq ? sizes.caps.max_recv_sge : 0;
    reply.max_inline_data = sizes.caps.max_inline_data;
    reply.sq = {qp.block.region, sizes.caps.max_send_wr, sizes.sq_stride, 0, qp.block.offset};
    if (own_rq)
        reply.rq = {qp.block.region, sizes.caps.max_recv_wr, sizes.rq_stride, 0, qp.block.offset + sizes.sq_bytes};
    control.call(
        call.session, qp.shard,
        [setup = setup_of(control, session, qp, qpn, request, sizes, srq)](engine::Shard& shard) {
            shard.create_qp(setup);
            return true;
        },
        [reply, block = qp.block, session = call.session, replier = call.reply] {
            reply_with_queue(*session, block, reply, replier);
        });
}

void remove_qp(Control& control, const std::shared_ptr<Session>& session, uint32_t qpn, std::function<void()> done) {
    const auto it = session->qps.find(qpn);
    const QpObject qp = it->second;
    session->qps.erase(it);
    for (const auto& group : qp.groups) control.devices[qp.device]->memberships().leave(group, session->id);
    control.call(
        session, qp.shard, [qpn](engine::Shard& shard) { return shard.destroy_qp(qpn); },
        [&control, session, qpn, qp, done = std::move(done)] {
            control.qpns.give_back(qpn);
            session->slots.give_back(qp.slot);
            session->arena->free(qp.block);
            release_users(*session, qp);
            session->forget_events(qp.context, qp.cookie);
            done();
        });
}

void handle(Call& call, const abi::DestroyQpRequest& request) {
    const auto done = [reply = call.reply]() mutable { reply.send(abi::DestroyQpReply{}); };
    if (const auto it = call.session->qps.find(request.qpn); it != call.session->qps.end()) {
        if (it->second.users != 0) return call.reply.fail(EBUSY);
        if (request.unmapped) call.session->arena->retire(it->second.block);
        return remove_qp(call.control, call.session, request.qpn, done);
    }
    if (!close_target(call.control, call.session, request.qpn, request.cookie, done)) call.reply.fail(EINVAL);
}

}  // namespace rocemu::control
