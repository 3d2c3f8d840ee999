// SPDX-License-Identifier: BSD-3-Clause
// For verbs_rules: cases of tests/cases.txt as a program meets them: operations that a transport does not have [case22],
// keys of windows [case24], the queue sizes of a QP that shares its receives [case25], datagrams to every kind of address,
// answered by what their completion says [case33].
#include "verbs_rules.h"

namespace rules {

namespace {

ibv_qp* make_qp(const Side& s, ibv_qp_type type, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = s.cq;
    init.qp_type = type;
    init.srq = srq;
    init.cap = {16, 16, 2, 2, 0};
    ibv_qp* qp = ibv_create_qp(s.nic->pd, &init);
    // ibv_create_qp(3): with an SRQ max_recv_wr is not looked at; what is told is what there is.
    if (qp != nullptr && srq != nullptr) EQUAL(init.cap.max_recv_wr, 0);
    return qp;
}

constexpr uint32_t kQkey = 0x1234;

int datagram_to_rts(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_state = IBV_QPS_INIT;
    int rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    if (rc == 0) rc = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    return rc != 0 ? rc : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

// A UC QP connected to itself.
int uc_to_rts(Side& s) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_state = IBV_QPS_INIT;
    if (const int rc = ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) return rc;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = s.qp->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = s.nic->gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(s.nic->gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    if (const int rc = ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)) return rc;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void refused(const Side& s, ibv_wr_opcode opcode) {
    ibv_sge sge{reinterpret_cast<uint64_t>(s.memory.data()), 8, s.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    EQUAL(ibv_post_send(s.qp, &wr, &bad), EINVAL);
    RULE(bad == &wr);
}

void foreign_operations(Side& s) {
    ibv_qp* own = s.qp;
    s.qp = make_qp(s, IBV_QPT_UC);
    EQUAL(uc_to_rts(s), 0);
    for (const ibv_wr_opcode op : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_SEND_WITH_INV})
        refused(s, op);
    EQUAL(ibv_destroy_qp(s.qp), 0);
    s.qp = make_qp(s, IBV_QPT_UD);
    EQUAL(datagram_to_rts(s.qp), 0);
    for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV})
        refused(s, op);
    EQUAL(ibv_destroy_qp(s.qp), 0);
    s.qp = own;
}

void window_keys(Side& s) {
    ibv_mr* mr = ibv_reg_mr(s.nic->pd, s.memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
    ibv_mw* mw = ibv_alloc_mw(s.nic->pd, IBV_MW_TYPE_2);
    RULE(mr != nullptr && mw != nullptr);
    ibv_wc wc{};
    uint32_t key = mw->rkey;
    // All low bytes, and the first ones again; each binding ends before the next.
    for (int i = 0; i < 300; ++i) {
        const uint32_t next = ibv_inc_rkey(key);
        EQUAL(next & ~0xffu, mw->rkey & ~0xffu);
        EQUAL(next & 0xff, (key + 1) & 0xff);
        key = next;
        ibv_send_wr end{}, bind{}, *bad = nullptr;
        bind.opcode = IBV_WR_BIND_MW;
        bind.next = &end;
        bind.bind_mw.mw = mw;
        bind.bind_mw.rkey = key;
        bind.bind_mw.bind_info = {mr, reinterpret_cast<uint64_t>(s.memory.data()), 64, IBV_ACCESS_REMOTE_WRITE};
        end.opcode = IBV_WR_LOCAL_INV;
        end.invalidate_rkey = key;
        end.send_flags = IBV_SEND_SIGNALED;
        EQUAL(ibv_post_send(s.qp, &bind, &bad), 0);
        RULE(s.poll(wc));
        EQUAL(wc.status, IBV_WC_SUCCESS);
        if (wc.status != IBV_WC_SUCCESS) break;
    }
    EQUAL(ibv_dealloc_mw(mw), 0);
    EQUAL(ibv_dereg_mr(mr), 0);
}

void shared_receives(const Side& s) {
    ibv_srq_init_attr init{};
    init.attr = {16, 1, 0};
    ibv_srq* srq = ibv_create_srq(s.nic->pd, &init);
    RULE(srq != nullptr);
    ibv_qp* qp = make_qp(s, IBV_QPT_RC, srq);
    RULE(qp != nullptr);
    ibv_recv_wr wr{}, *bad = nullptr;
    EQUAL(ibv_post_recv(qp, &wr, &bad), EINVAL);
    RULE(bad == &wr);
    EQUAL(ibv_destroy_qp(qp), 0);
    EQUAL(ibv_destroy_srq(srq), 0);
}

int send_datagram(const Side& s, ibv_ah* ah, uint32_t qpn, uint8_t what) {
    auto* p = const_cast<uint8_t*>(s.memory.data()) + 4096;
    std::memset(p, what, 100);
    ibv_sge sge{reinterpret_cast<uint64_t>(p), 100, s.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = kQkey;
    return ibv_post_send(s.qp, &wr, &bad);
}

// The receive of a datagram of 100 bytes `what`; what its sender's completions say is left out.
bool arrives(Side& s, uint32_t from, uint8_t what, ibv_wc& wc) {
    do
        if (!s.poll(wc)) return false;
    while (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) == 0);
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(wc.byte_len, 140);
    EQUAL(wc.src_qp, from);
    RULE((wc.wc_flags & IBV_WC_GRH) != 0);
    return s.memory[39 + 1] == what && s.memory[139] == what && s.memory[140] == 0;
}

void datagrams(Side& a, Side& b) {
    ibv_qp* own[2] = {a.qp, b.qp};
    for (Side* s : {&a, &b}) {
        s->qp = make_qp(*s, IBV_QPT_UD);
        EQUAL(datagram_to_rts(s->qp), 0);
    }
    uint32_t kinds = 0;
    for (uint8_t i = 0; i < 4; ++i) {
        ibv_gid_entry ours{}, theirs{};
        if (ibv_query_gid_ex(a.nic->context, 1, i, &ours, 0) != 0 || ibv_query_gid_ex(b.nic->context, 1, i, &theirs, 0) != 0 ||
            ours.gid_type != theirs.gid_type)
            continue;
        ++kinds;
        for (Side* s : {&a, &b}) {
            std::memset(s->memory.data(), 0, 256);
            EQUAL(s->receive(i, 256), 0);
        }
        ibv_ah_attr to{};
        to.is_global = 1;
        to.port_num = 1;
        to.grh.dgid = theirs.gid;
        to.grh.sgid_index = i;
        to.grh.hop_limit = 64;
        ibv_ah* ah = ibv_create_ah(a.nic->pd, &to);
        RULE(ah != nullptr);
        if (ah == nullptr) continue;
        ibv_wc wc{};
        EQUAL(send_datagram(a, ah, b.qp->qp_num, 0x40 + i), 0);
        RULE(arrives(b, a.qp->qp_num, static_cast<uint8_t>(0x40 + i), wc));
        ibv_ah* back = ibv_create_ah_from_wc(b.nic->pd, &wc, reinterpret_cast<ibv_grh*>(b.memory.data()), 1);
        RULE(back != nullptr);
        if (back != nullptr) {
            EQUAL(send_datagram(b, back, wc.src_qp, 0x60 + i), 0);
            RULE(arrives(a, b.qp->qp_num, static_cast<uint8_t>(0x60 + i), wc));
            EQUAL(ibv_destroy_ah(back), 0);
        }
        EQUAL(ibv_destroy_ah(ah), 0);
    }
    EQUAL(kinds, 4);  // v1 and v2, link-local IPv6 and IPv4
    for (Side* s : {&a, &b}) {
        EQUAL(ibv_destroy_qp(s->qp), 0);
        ibv_wc wc{};
        while (ibv_poll_cq(s->cq, 1, &wc) > 0) {
        }
    }
    a.qp = own[0];
    b.qp = own[1];
}

}  // namespace

void cases(Nic& na, Nic& nb) {
    group = "cases";
    Side a, b;
    RULE(a.make(na, 16) && b.make(nb, 16));
    RULE(connect(a, b));
    foreign_operations(a);
    window_keys(a);
    shared_receives(a);
    a.destroy();
    b.destroy();
    Side c, d;
    RULE(c.make(na, 16) && d.make(nb, 16));
    datagrams(c, d);
    c.destroy();
    d.destroy();
}

}  // namespace rules
