// SPDX-License-Identifier: BSD-3-Clause
// See check_bytes_end.h.
#include "check_bytes_end.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace check_bytes {
namespace {

void need(bool ok, const std::string& what) {
    if (!ok) throw Failure(what + ": " + std::strerror(errno));
}

// A RoCE v2 address, IPv4 if there is one.
int choose_gid(ibv_context* context, const ibv_port_attr& port, ibv_gid& gid) {
    static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    int found = -1;
    for (int i = 0; i < port.gid_tbl_len; ++i) {
        ibv_gid_entry e{};
        if (ibv_query_gid_ex(context, 1, static_cast<uint32_t>(i), &e, 0) != 0 || e.gid_type != IBV_GID_TYPE_ROCE_V2)
            continue;
        const bool ipv4 = std::memcmp(e.gid.raw, kMapped, sizeof kMapped) == 0;
        if (found >= 0 && !ipv4) continue;
        found = i;
        gid = e.gid;
        if (ipv4) break;
    }
    return found;
}

std::vector<ibv_sge> sges_of(const std::vector<Piece>& pieces, const std::byte* slot, uint32_t lkey, uint32_t extra) {
    std::vector<ibv_sge> out;
    for (const Piece& p : pieces) out.push_back({reinterpret_cast<uint64_t>(slot + p.offset), p.length, lkey});
    if (!out.empty()) out.back().length += extra;
    return out;
}

constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;  // an int: ibv_reg_mr is a macro that mixes two enums

constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                      IBV_WR_RDMA_READ};

}  // namespace

Nic::Nic(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    need(list != nullptr, "ibv_get_device_list");
    for (int i = 0; i < count && context == nullptr; ++i)
        if (name == ibv_get_device_name(list[i])) need((context = ibv_open_device(list[i])) != nullptr, "ibv_open_device");
    ibv_free_device_list(list);
    if (context == nullptr) throw Failure("no device " + name);
    need((errno = ibv_query_port(context, 1, &port)) == 0, "ibv_query_port");
    gid_index = choose_gid(context, port, gid);
    if (gid_index < 0) throw Failure(name + " has no RoCE v2 address");
    need((pd = ibv_alloc_pd(context)) != nullptr, "ibv_alloc_pd");
    need((cq = ibv_create_cq(context, 1024, nullptr, nullptr, 0)) != nullptr, "ibv_create_cq");
}

Buffer::Buffer(size_t bytes, bool shared) : base_(nullptr), bytes_(bytes) {
    if (shared) {
        fd_ = memfd_create("check_bytes", MFD_CLOEXEC);
        need(fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) == 0, "memfd");
    }
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd_, 0);
    need(p != MAP_FAILED, "mmap");
    base_ = static_cast<std::byte*>(p);
}

Buffer::~Buffer() {
    munmap(base_, bytes_);
    if (fd_ >= 0) close(fd_);
}

End::End(Nic& nic, Announcement& mine, Announcement& peers, uint32_t psn, bool shared)
    : nic_(nic), mine_(mine), peers_(peers), out_(size_t{kWindow} * kSlotBytes, shared),
      in_(size_t{kWindow} * kSlotBytes, shared), expected_(new std::byte[kSlotBytes]) {
    std::memset(out_.get(), kPoison, size_t{kWindow} * kSlotBytes);
    std::memset(in_.get(), kPoison, size_t{kWindow} * kSlotBytes);
    need((out_mr_ = ibv_reg_mr(nic.pd, out_.get(), size_t{kWindow} * kSlotBytes, kLocalWrite)) != nullptr,
         "ibv_reg_mr");
    need((in_mr_ = ibv_reg_mr(nic.pd, in_.get(), size_t{kWindow} * kSlotBytes,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)) != nullptr,
         "ibv_reg_mr");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = nic.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {kWindow, kWindow, kMaxPieces, kMaxPieces, 64};
    need((qp_ = ibv_create_qp(nic.pd, &init)) != nullptr, "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    need((errno = ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) == 0,
         "modify to INIT");
    mine_.qpn = qp_->qp_num;
    mine_.psn = psn & 0xffffff;
    mine_.mtu = nic.port.active_mtu;
    mine_.max_inline = init.cap.max_inline_data;
    mine_.gid = nic.gid;
    mine_.in_address = reinterpret_cast<uint64_t>(in_.get());
    mine_.in_rkey = in_mr_->rkey;
    mine_.ready.store(1);
}

void End::connect() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    // Both ends pick the same: from the smaller MTU down by what the numbers of the pair give.
    const uint32_t largest = std::min(mine_.mtu, peers_.mtu);
    attr.path_mtu = static_cast<ibv_mtu>(1 + ((mine_.psn ^ peers_.psn) % largest));
    attr.dest_qp_num = peers_.qpn;
    attr.rq_psn = peers_.psn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peers_.gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(nic_.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    need((errno = ibv_modify_qp(qp_, &attr,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) == 0,
         "modify to RTR");
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.sq_psn = mine_.psn;
    attr.max_rd_atomic = 4;
    need((errno = ibv_modify_qp(qp_, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC)) == 0,
         "modify to RTS");
    mine_.ready.store(2);
}

void End::set_plans(std::vector<Message> mine, std::vector<Message> peers) {
    plan_ = std::move(mine);
    peer_plan_ = std::move(peers);
}

void End::prepare_first() {
    for (uint32_t m = 0; m < std::min<size_t>(kWindow, peer_plan_.size()); ++m) prepare(m);
}

// Makes the slot ready for the peer's message `m`: bytes to be read, or poison and a receive.
void End::prepare(uint32_t m) {
    const Message& message = peer_plan_[m];
    if (message.op == Op::Read)
        fill_slot(message, message.remote, in_slot(m));
    else
        std::memset(in_slot(m), kPoison, kSlotBytes);
    if (message.takes_receive()) {
        std::vector<ibv_sge> sges;
        if (message.op != Op::WriteImm) sges = sges_of(message.remote, in_slot(m), in_mr_->lkey, message.receive_extra);
        ibv_recv_wr wr{}, *bad = nullptr;
        wr.wr_id = uint64_t{1} << 32 | m;
        wr.sg_list = sges.data();
        wr.num_sge = static_cast<int>(sges.size());
        need((errno = ibv_post_recv(qp_, &wr, &bad)) == 0, "ibv_post_recv");
    }
    mine_.prepared.store(m + 1);
}

void End::post(uint32_t m) {
    const Message& message = plan_[m];
    std::byte* slot = out_slot(m);
    if (message.op == Op::Read)
        std::memset(slot, kPoison, kSlotBytes);
    else
        fill_slot(message, message.local, slot);
    std::vector<ibv_sge> sges = sges_of(message.local, slot, out_mr_->lkey, 0);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = m;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.opcode = kOpcodes[static_cast<size_t>(message.op)];
    wr.send_flags = IBV_SEND_SIGNALED | (message.inline_data ? IBV_SEND_INLINE : 0);
    wr.imm_data = message.imm;
    wr.wr.rdma.remote_addr =
        peers_.in_address + size_t{m % kWindow} * kSlotBytes + message.remote[0].offset;
    wr.wr.rdma.rkey = peers_.in_rkey;
    need((errno = ibv_post_send(qp_, &wr, &bad)) == 0, "ibv_post_send");
    if (message.inline_data) std::memset(slot, 0, kSlotBytes);  // the buffer is ours again
    ++posted_;
}

void End::check(const Message& m, const std::vector<Piece>& pieces, const std::byte* slot, const char* what,
                uint32_t index) {
    fill_slot(m, pieces, expected_.get());
    bytes_checked_ += m.size;
    if (std::memcmp(slot, expected_.get(), kSlotBytes) == 0) return;
    uint32_t at = 0;
    while (slot[at] == expected_[at]) ++at;
    throw Failure(std::string(what) + " of message " + std::to_string(index) + " (op " +
                  std::to_string(static_cast<int>(m.op)) + ", " + std::to_string(m.size) + " bytes, " +
                  std::to_string(pieces.size()) + " pieces) is wrong at byte " + std::to_string(at) + " of its slot: " +
                  std::to_string(static_cast<int>(slot[at])) + ", not " + std::to_string(static_cast<int>(expected_[at])));
}

bool End::retire_next() {
    if (retired_ == peer_plan_.size()) return false;
    const uint32_t m = retired_;
    const Message& message = peer_plan_[m];
    // A WRITE is known to be there when a later message has arrived; a READ when the peer says that it has the data.
    if (message.op == Op::Read ? peers_.completed <= m : received_ <= m) return false;
    check(message, message.remote, in_slot(m), message.op == Op::Read ? "source" : "arrival", m);
    ++retired_;
    if (m + kWindow < peer_plan_.size()) prepare(m + kWindow);
    return true;
}

bool End::step() {
    bool any = false;
    while (posted_ < plan_.size() && posted_ < peers_.prepared && posted_ < mine_.completed + kWindow) {
        post(posted_);
        any = true;
    }
    while (retire_next()) any = true;
    return any;
}

void End::handle(const ibv_wc& wc) {
    const auto m = static_cast<uint32_t>(wc.wr_id);
    const bool receive = wc.wr_id >> 32 != 0;
    if (wc.status != IBV_WC_SUCCESS)
        throw Failure(std::string(receive ? "receive" : "send") + " completion " + std::to_string(m) + ": " +
                      ibv_wc_status_str(wc.status));
    if (!receive) {
        if (m != mine_.completed) throw Failure("completion " + std::to_string(m) + " out of order");
        const Message& message = plan_[m];
        if (message.op == Op::Read)
            check(message, message.local, out_slot(m), "READ data", m);
        else if (!message.inline_data)
            check(message, message.local, out_slot(m), "source", m);
        mine_.completed.store(m + 1);
        return;
    }
    const Message& message = peer_plan_[m];
    if (m < received_) throw Failure("receive " + std::to_string(m) + " out of order");
    const bool imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    const bool write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    if (wc.byte_len != message.size || imm != message.has_imm() || write != (message.op == Op::WriteImm) ||
        (imm && wc.imm_data != message.imm))
        throw Failure("receive completion " + std::to_string(m) + " says the wrong length, kind or immediate");
    received_ = m + 1;
}

std::string End::progress() const {
    return "posted " + std::to_string(posted_) + ", completed " + std::to_string(mine_.completed.load()) + " of " +
           std::to_string(plan_.size()) + ", received " + std::to_string(received_) + ", retired " +
           std::to_string(retired_) + " of " + std::to_string(peer_plan_.size());
}

}  // namespace check_bytes
