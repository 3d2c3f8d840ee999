// SPDX-License-Identifier: BSD-3-Clause
// See verbs_rules.h.
#include <time.h>

#include "verbs_rules.h"

namespace rules {

bool Nic::open(const char* name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; list != nullptr && i < count && context == nullptr; ++i)
        if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) context = ibv_open_device(list[i]);
    if (list != nullptr) ibv_free_device_list(list);
    if (context == nullptr) return false;
    ibv_port_attr port{};
    if (ibv_query_port(context, 1, &port) != 0) return false;
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid_entry e{};
        if (ibv_query_gid_ex(context, 1, static_cast<uint32_t>(i), &e, 0) == 0 && e.gid_type == IBV_GID_TYPE_ROCE_V2) {
            gid = e.gid;
            gid_index = i;
        }
    }
    pd = ibv_alloc_pd(context);
    return gid_index >= 0 && pd != nullptr;
}

void Nic::close() {
    EQUAL(ibv_dealloc_pd(pd), 0);
    EQUAL(ibv_close_device(context), 0);
    context = nullptr;
}

bool Side::make(Nic& n, uint32_t depth, bool with_channel) {
    nic = &n;
    if (with_channel) channel = ibv_create_comp_channel(n.context);
    cq = ibv_create_cq(n.context, 256, this, channel, 0);
    mr = ibv_reg_mr(n.pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {depth, depth, 4, 4, 64};
    init.qp_context = this;
    qp = cq != nullptr ? ibv_create_qp(n.pd, &init) : nullptr;
    return qp != nullptr && mr != nullptr && (channel != nullptr) == with_channel;
}

void Side::destroy() {
    EQUAL(ibv_destroy_qp(qp), 0);
    EQUAL(ibv_destroy_cq(cq), 0);
    if (channel != nullptr) EQUAL(ibv_destroy_comp_channel(channel), 0);
    EQUAL(ibv_dereg_mr(mr), 0);
}

int Side::to_init() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int Side::to_rtr(const Side& peer, uint8_t rnr_timer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer.nic->gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(nic->gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int Side::to_rts(uint8_t retry, uint8_t timeout, uint8_t rnr_retry) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = retry;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = 4;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

int Side::to_state(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int Side::send(uint64_t id, uint32_t length, unsigned flags, uint32_t offset) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()) + offset, length, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    const int rc = ibv_post_send(qp, &wr, &bad);
    if (rc != 0) EQUAL(bad == &wr, true);
    return rc;
}

int Side::receive(uint64_t id, uint32_t length, uint32_t offset) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()) + offset, length, mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    const int rc = ibv_post_recv(qp, &wr, &bad);
    if (rc != 0) EQUAL(bad == &wr, true);
    return rc;
}

int Side::transfer(ibv_wr_opcode opcode, const void* address, uint32_t rkey, uint32_t length) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), length, mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = reinterpret_cast<uint64_t>(address);
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 5;
    } else {
        wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(address);
        wr.wr.rdma.rkey = rkey;
    }
    EQUAL(ibv_post_send(qp, &wr, &bad), 0);
    ibv_wc wc{};
    return poll(wc) ? static_cast<int>(wc.status) : -1;
}

bool Side::poll(ibv_wc& wc) {
    const time_t end = time(nullptr) + 8;
    do {
        const int n = ibv_poll_cq(cq, 1, &wc);
        if (n == 1) return true;
        if (n < 0) return false;
    } while (time(nullptr) < end);
    return false;
}

bool Side::nothing() {
    ibv_wc wc;
    const timespec moment{0, 20'000'000};
    nanosleep(&moment, nullptr);
    return ibv_poll_cq(cq, 1, &wc) == 0;
}

bool connect(Side& a, Side& b) {
    return a.to_init() == 0 && b.to_init() == 0 && a.to_rtr(b) == 0 && b.to_rtr(a) == 0 && a.to_rts() == 0 && b.to_rts() == 0;
}

}  // namespace rules
