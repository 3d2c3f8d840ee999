// SPDX-License-Identifier: BSD-3-Clause
// See soak_connection.h.
#include "soak_connection.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

namespace interop::soak {

namespace {

constexpr uint64_t kReceiveFlag = 1ull << 63;

uint64_t address_of(const void* p) {
    return reinterpret_cast<uintptr_t>(p);
}

}  // namespace

Connection::Connection(Common& common, uint32_t index, std::byte* memory)
    : c_(common),
      index_(index),
      slots_(memory),
      receives_(slots_ + size_t{kMaxSize} * kSlots),
      out_(receives_ + size_t{kMaxSize} * kReceives),
      results_(out_ + size_t{kMaxSize} * kWindow),
      counter_(reinterpret_cast<uint64_t*>(results_ + size_t{kMaxSize} * kWindow)) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = c_.cq;
    init.cap = {kWindow, kReceives, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(c_.pd, &init);
    if (qp_ == nullptr) fail("ibv_create_qp: " + std::string(std::strerror(errno)));
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (ibv_modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) fail("INIT");
    for (uint32_t i = 0; i < kReceives; ++i) post_receive(i);
}

Connection::~Connection() {
    if (qp_ != nullptr) ibv_destroy_qp(qp_);
}

void Connection::fail(const std::string& what) const {
    throw Failure(std::string(c_.side == 0 ? "driver" : "server") + ", connection " + std::to_string(index_) + ": " +
                  what + " (" + std::to_string(completed_) + " of " + std::to_string(posted_) + " completed, " +
                  std::to_string(received_) + " received)");
}

Address Connection::address() const {
    // Some wrap soon.
    const uint32_t psn = index_ % 3 == 0 ? 0xffffe0 + index_ % 32 : static_cast<uint32_t>(mix(index_)) & 0xffffff;
    return {c_.gid, qp_->qp_num, psn, c_.mr->rkey, address_of(slots_), c_.readable, address_of(counter_)};
}

void Connection::connect(const Address& peer) {
    peer_ = peer;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.dgid = peer.gid;
    a.ah_attr.grh.sgid_index = static_cast<uint8_t>(c_.gid_index);
    a.ah_attr.grh.hop_limit = 64;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer.qpn;
    a.rq_psn = peer.psn;
    a.max_dest_rd_atomic = kWindow;
    a.min_rnr_timer = 20;  // 10 ms
    if (ibv_modify_qp(qp_, &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        fail("RTR");
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = address().psn;
    a.timeout = 18;  // 1.07 s: a guest with 1,000 connections on a busy machine is silent for long
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    a.max_rd_atomic = kWindow;
    if (ibv_modify_qp(qp_, &a,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        fail("RTS");
}

void Connection::post_receive(uint32_t buffer) {
    ibv_sge sge{address_of(receives_ + size_t{kMaxSize} * buffer), kMaxSize, c_.mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = kReceiveFlag | uint64_t{buffer} << 32 | index_;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (ibv_post_recv(qp_, &wr, &bad) != 0) fail("ibv_post_recv");
}

void Connection::post() {
    const Message m = message(index_, c_.side, posted_);
    std::byte* local = out_ + size_t{kMaxSize} * (posted_ % kWindow);
    if (!m.takes_receive()) {
        local = results_ + size_t{kMaxSize} * (posted_ % kWindow);
        std::memset(local, 0xEE, m.size);
    } else {
        for (uint32_t i = 0; i < m.size; ++i) local[i] = payload(index_, c_.side, out_receives_, i);
    }
    ibv_sge sge{address_of(local), m.size, c_.mr->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = posted_ << 32 | index_;
    wr.sg_list = &sge;
    wr.num_sge = m.size == 0 ? 0 : 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = htonl(static_cast<uint32_t>(out_receives_));
    switch (m.kind) {
        case Kind::Send:
            wr.opcode = IBV_WR_SEND;
            break;
        case Kind::SendImm:
            wr.opcode = IBV_WR_SEND_WITH_IMM;
            break;
        case Kind::WriteImm:
            wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            wr.wr.rdma = {peer_.slots + uint64_t{kMaxSize} * (out_receives_ % kSlots), peer_.rkey};
            break;
        case Kind::Read:
            wr.opcode = IBV_WR_RDMA_READ;
            // Linux keeps 0 as the key of a READ of no bytes, which needs none (IBTA C9-88), and drops its repetition if
            // that says another.
            wr.wr.rdma = {peer_.source, m.size == 0 ? 0 : peer_.rkey};
            break;
        case Kind::FetchAdd:
            wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            wr.wr.atomic = {peer_.counter, 1, 0, peer_.rkey};
            break;
    }
    if (ibv_post_send(qp_, &wr, &bad) != 0) fail("ibv_post_send");
    ++posted_;
    out_receives_ += m.takes_receive();
}

template <typename Expected>
void Connection::check(const std::byte* at, uint32_t size, Expected expected, const char* what) {
    for (uint32_t i = 0; i < size; ++i)
        if (at[i] != expected(i)) fail(std::string(what) + ": byte " + std::to_string(i) + " is wrong");
    bytes_ += size;
}

void Connection::handle(const ibv_wc& wc) {
    if (wc.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(wc.status));
    if ((wc.wr_id & kReceiveFlag) != 0)
        handle_receive(wc);
    else
        handle_send(wc);
}

void Connection::handle_send(const ibv_wc& wc) {
    if (wc.wr_id >> 32 != completed_) fail("completion of message " + std::to_string(wc.wr_id >> 32) + " out of order");
    const Message m = message(index_, c_.side, completed_);
    const std::byte* result = results_ + size_t{kMaxSize} * (completed_ % kWindow);
    ++completed_;
    if (m.kind == Kind::Read)
        check(
            result, m.size, [](size_t i) { return readable(i); }, "READ");
    if (m.kind == Kind::FetchAdd) {
        uint64_t old = 0;
        std::memcpy(&old, result, sizeof old);
        if (old != added_) fail("FETCH_ADD returned " + std::to_string(old) + " instead of " + std::to_string(added_));
        ++added_;
        bytes_ += sizeof old;
    }
}

void Connection::handle_receive(const ibv_wc& wc) {
    const uint32_t theirs = 1 - c_.side;
    Message m = message(index_, theirs, peer_number_++);
    while (!m.takes_receive()) m = message(index_, theirs, peer_number_++);
    const uint64_t n = received_++;
    const auto buffer = static_cast<uint32_t>(wc.wr_id >> 32 & 0xff);
    if (buffer != n % kReceives) fail("receives complete out of order");
    if (wc.byte_len != m.size) fail("length " + std::to_string(wc.byte_len) + " instead of " + std::to_string(m.size));
    if ((wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) != (m.kind == Kind::WriteImm)) fail("wrong opcode");
    if (m.kind != Kind::Send && wc.imm_data != htonl(static_cast<uint32_t>(n))) fail("wrong immediate");
    const std::byte* at =
        m.kind == Kind::WriteImm ? slots_ + size_t{kMaxSize} * (n % kSlots) : receives_ + size_t{kMaxSize} * buffer;
    check(
        at, m.size, [&](size_t i) { return payload(index_, theirs, n, i); }, "received message");
    post_receive(buffer);
}

}  // namespace interop::soak
