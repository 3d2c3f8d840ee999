// SPDX-License-Identifier: BSD-3-Clause
// Receive work queues, tables of them, and QPs that spread their frames over a table (ibv_create_wq(3),
// ibv_create_rwq_ind_table(3), ibv_create_qp_ex(3) with rx_hash_conf). For the daemon a work queue is a raw packet QP
// that only receives: RDY is its RTR.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "provider/flow.h"
#include "provider/qp.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {

struct Wq {
    ibv_wq base;
    std::byte foreign_pad[kForeignPad];
    Qp* qp;
    std::atomic<uint32_t> users;  // tables it is in

    static Wq* of(ibv_wq* wq) { return reinterpret_cast<Wq*>(wq); }
};

struct IndTable {
    ibv_rwq_ind_table base;
    std::byte foreign_pad[kForeignPad];
    std::atomic<uint32_t> users;  // QPs
    uint32_t count;
    Wq* queues[abi::kMaxRssQueues];

    static IndTable* of(ibv_rwq_ind_table* table) { return reinterpret_cast<IndTable*>(table); }
};

namespace {

constexpr size_t kHashKeyBytes = sizeof(abi::CreateRssQpRequest::hash_key);

int post_wq_recv(ibv_wq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    return post_recv(Wq::of(base)->qp->base(), wr, bad_wr);
}

int move(Qp& qp, ibv_qp_state state, int more = 0) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    return ibv_modify_qp(qp.base(), &attr, IBV_QP_STATE | more);
}

int make_ready(Qp& qp) {
    const int rc = move(qp, IBV_QPS_INIT, IBV_QP_PORT);
    return rc != 0 ? rc : move(qp, IBV_QPS_RTR);
}

}  // namespace

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) {
    if (attr->wq_type != IBV_WQT_RQ || attr->pd == nullptr || attr->cq == nullptr || attr->pd->context != context ||
        attr->cq->context != context)
        return fail_pointer<ibv_wq>(EINVAL);
    // Of the flags none is offered (ibv_device_attr_ex::raw_packet_caps).
    if ((attr->comp_mask & ~static_cast<uint32_t>(IBV_WQ_INIT_ATTR_FLAGS)) != 0 ||
        ((attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 && attr->create_flags != 0))
        return fail_pointer<ibv_wq>(EOPNOTSUPP);
    auto* wq = new (std::nothrow) Wq{};
    if (wq == nullptr) return fail_pointer<ibv_wq>(ENOMEM);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = attr->cq;
    init.qp_type = IBV_QPT_RAW_PACKET;
    init.cap.max_recv_wr = attr->max_wr;
    init.cap.max_recv_sge = attr->max_sge;
    wq->qp = make_qp(attr->pd, init);
    if (wq->qp == nullptr) {
        delete wq;
        return nullptr;
    }
    attr->max_wr = wq->qp->cap.max_recv_wr;
    attr->max_sge = wq->qp->cap.max_recv_sge;
    ibv_wq& b = wq->base;
    b.context = context;
    b.pd = attr->pd;
    b.cq = attr->cq;
    b.wq_num = b.handle = wq->qp->base()->qp_num;
    b.state = IBV_WQS_RESET;
    b.wq_type = attr->wq_type;
    b.post_recv = post_wq_recv;
    return &b;
}

int modify_wq(ibv_wq* base, ibv_wq_attr* attr) {
    if ((attr->attr_mask & ~static_cast<uint32_t>(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE)) != 0) return EOPNOTSUPP;
    if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0 && attr->curr_wq_state != base->state) return EINVAL;
    if ((attr->attr_mask & IBV_WQ_ATTR_STATE) == 0) return 0;
    Qp& qp = *Wq::of(base)->qp;
    int rc = EINVAL;
    if (attr->wq_state == IBV_WQS_RESET) rc = move(qp, IBV_QPS_RESET);
    if (attr->wq_state == IBV_WQS_RDY && base->state == IBV_WQS_RESET) rc = make_ready(qp);
    if (attr->wq_state == IBV_WQS_RDY && base->state == IBV_WQS_RDY) rc = 0;
    if (attr->wq_state == IBV_WQS_ERR && base->state != IBV_WQS_RESET) rc = move(qp, IBV_QPS_ERR);
    if (rc == 0) base->state = attr->wq_state;
    return rc;
}

int destroy_wq(ibv_wq* base) {
    Wq* wq = Wq::of(base);
    if (wq->users.load() != 0) return EBUSY;
    if (const int rc = ibv_destroy_qp(wq->qp->base()); rc != 0) return rc;
    delete wq;
    return 0;
}

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) {
    if (attr->comp_mask != 0 || attr->log_ind_tbl_size > 31 || (1u << attr->log_ind_tbl_size) > abi::kMaxRssQueues)
        return fail_pointer<ibv_rwq_ind_table>(EINVAL);
    const uint32_t count = 1u << attr->log_ind_tbl_size;
    for (uint32_t i = 0; i < count; ++i)
        if (attr->ind_tbl[i] == nullptr || attr->ind_tbl[i]->context != context)
            return fail_pointer<ibv_rwq_ind_table>(EINVAL);
    auto* table = new (std::nothrow) IndTable{};
    if (table == nullptr) return fail_pointer<ibv_rwq_ind_table>(ENOMEM);
    table->base.context = context;
    table->count = count;
    for (uint32_t i = 0; i < count; ++i) {
        table->queues[i] = Wq::of(attr->ind_tbl[i]);
        ++table->queues[i]->users;
    }
    return &table->base;
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* base) {
    IndTable* table = IndTable::of(base);
    if (table->users.load() != 0) return EBUSY;
    for (uint32_t i = 0; i < table->count; ++i) --table->queues[i]->users;
    delete table;
    return 0;
}

Qp* make_rss_qp(const ibv_qp_init_attr_ex& attr) {
    const ibv_rx_hash_conf& hash = attr.rx_hash_conf;
    if (attr.qp_type != IBV_QPT_RAW_PACKET || attr.rwq_ind_tbl == nullptr ||
        attr.rwq_ind_tbl->context != attr.pd->context || hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
        hash.rx_hash_key_len != kHashKeyBytes || hash.rx_hash_key == nullptr ||
        (hash.rx_hash_fields_mask & ~kRxHashFields) != 0)
        return fail_pointer<Qp>(EINVAL);
    IndTable* table = IndTable::of(attr.rwq_ind_tbl);
    Session& session = *Pd::of(attr.pd)->context().session;
    abi::CreateRssQpRequest request;
    request.pd = attr.pd->handle;
    request.count = table->count;
    request.hash_fields = static_cast<uint32_t>(hash.rx_hash_fields_mask);
    std::memcpy(request.hash_key, hash.rx_hash_key, kHashKeyBytes);
    for (uint32_t i = 0; i < table->count; ++i) request.queues[i] = table->queues[i]->base.wq_num;
    auto* qp = new (std::nothrow) Qp{};
    if (qp == nullptr) return fail_pointer<Qp>(ENOMEM);
    abi::CreateRssQpReply reply;
    if (const int rc = session.call(request, reply); rc != 0) {
        delete qp;
        return fail_pointer<Qp>(rc);
    }
    ++table->users;
    qp->spread = table;
    qp->cookie = session.new_cookie();
    qp->base()->pd = attr.pd;
    ibv_qp_init_attr plain{};  // without CQs: nothing completes on it
    plain.qp_context = attr.qp_context;
    plain.qp_type = attr.qp_type;
    introduce(*qp, session, attr.pd->context, plain, reply.qpn);
    return qp;
}

int destroy_rss_qp(Qp* qp) {
    if (const int rc = qp->session->undo(abi::DestroyRssQpRequest{qp->base()->qp_num}); rc != 0) return rc;
    if (qp->session->state() != SessionState::Forgotten) {
        Guard guard(qp->session->objects_lock);
        qp->session->qps.erase(qp->cookie);
    }
    --qp->spread->users;
    delete qp;
    return 0;
}

}  // namespace rocemu::provider
