// SPDX-License-Identifier: BSD-3-Clause
// See side.h: what is posted, polled and checked.
#include <unistd.h>

#include <cstring>

#include "side.h"

namespace interop {

void Side::create_windows() {
    for (uint32_t m = 0; m < case_.messages(); ++m) {
        ibv_send_wr wr{}, *bad = nullptr;
        wr.opcode = IBV_WR_BIND_MW;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.bind_mw.mw = windows_[m];
        wr.bind_mw.rkey = window_keys_[m] = ibv_inc_rkey(windows_[m]->rkey);
        wr.bind_mw.bind_info = {mr_, reinterpret_cast<uintptr_t>(arena_.base()), arena_.size(),
                                IBV_ACCESS_REMOTE_WRITE};
        must(ibv_post_send(qp_, &wr, &bad) == 0, "BIND_MW");
        ibv_wc wc{};
        const double limit = seconds() + 10;
        while (ibv_poll_cq(cq_, 1, &wc) == 0) {
            must(seconds() < limit, "no completion of BIND_MW");
            usleep(100);
        }
        must(wc.status == IBV_WC_SUCCESS, "BIND_MW failed");
    }
}

void Side::post_receive(uint32_t message) {
    const uint32_t header = case_.service == Service::Ud ? 40 : 0;
    const bool writes = case_.work == Work::WriteImm;  // takes a receive, but not its buffer
    uint32_t length = writes ? 0 : case_.size + header;
    if (message == 1 && case_.fault == Fault::ShortReceive) --length;
    ibv_sge sge{reinterpret_cast<uintptr_t>(arena_.payload(message)) - header, length, mr_->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = receives_++;
    wr.sg_list = &sge;
    wr.num_sge = length == 0 ? 0 : 1;
    const int rc = srq_ != nullptr ? ibv_post_srq_recv(srq_, &wr, &bad) : ibv_post_recv(qp_, &wr, &bad);
    must(rc == 0, "posting a receive");
}

Ready Side::prepare() {
    Ready r;
    if (requester_) return r;
    if (case_.fault == Fault::Silent) {
        ibv_destroy_qp(qp_);
        qp_ = nullptr;
        return r;
    }
    if (case_.work == Work::SendInvalidate) create_windows();
    std::memcpy(r.invalidate, window_keys_, sizeof r.invalidate);
    if (case_.takes_receive())
        for (uint32_t m = 0; m < (case_.fault == Fault::NoReceive ? 1 : case_.messages()); ++m) post_receive(m);
    return r;
}

void Side::post_held_back() {
    while (receives_ < case_.messages()) post_receive(receives_);
}

ibv_send_wr Side::request(uint32_t m, const Ready& peer, ibv_sge& sge) {
    static constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND,
                                                 IBV_WR_SEND_WITH_IMM,
                                                 IBV_WR_SEND_WITH_INV,
                                                 IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_CMP_AND_SWP,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    const uint32_t size = case_.atomic() ? 8 : case_.size;
    const Fault fault = m == 1 ? case_.fault : Fault::None;
    sge = {reinterpret_cast<uintptr_t>(arena_.payload(m)), size, mr_->lkey ^ (fault == Fault::Lkey ? 7u : 0u)};
    // Both sides have the same arena.
    uint64_t remote = peer_.address + static_cast<uint64_t>(arena_.payload(m) - arena_.payload(0));
    uint32_t rkey = peer_.rkey;
    if (case_.any_key) rkey = 0;
    if (fault == Fault::Bounds) remote = peer_.region_end - size + (case_.atomic() ? 8 : 1);
    if (fault == Fault::Unaligned) remote += 4;
    if (fault == Fault::Rkey) rkey ^= 7;
    if (fault == Fault::OtherPd || fault == Fault::RegionAccess) rkey = peer_.other_rkey;
    ibv_send_wr wr{};
    wr.wr_id = m;
    wr.sg_list = &sge;
    wr.num_sge = size == 0 ? 0 : 1;
    wr.opcode = kOpcodes[static_cast<int>(case_.work)];
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = immediate_of(m);
    if (case_.work == Work::SendInvalidate) wr.invalidate_rkey = peer.invalidate[m];
    if (case_.service == Service::Ud) {
        wr.wr.ud = {ah_, peer_.qpn, 0x1234567};
    } else if (case_.atomic()) {
        const bool cas = case_.work == Work::CompareSwap;
        wr.wr.atomic = {remote, cas ? Arena::compare(m) : Arena::operand(m), cas ? Arena::kSwap + m : 0, rkey};
    } else {
        wr.wr.rdma = {remote, rkey};
    }
    return wr;
}

void Side::post(const Ready& peer) {
    for (uint32_t m = 0; m < case_.messages(); ++m) {
        ibv_sge sge{};
        ibv_send_wr wr = request(m, peer, sge), *bad = nullptr;
        if (const int error = ibv_post_send(qp_, &wr, &bad); error != 0) outcome_.add_refused(m, error);
    }
}

bool Side::poll() {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq_, 1, &wc);
    must(n >= 0, "ibv_poll_cq");
    if (n == 0) return false;
    if (requester_)
        outcome_.add_send(case_, wc);
    else
        outcome_.add_receive(case_, wc, window_keys_[wc.wr_id % 8]);
    return true;
}

bool Side::arrived() {
    if (requester_ || case_.reliable() || case_.takes_receive()) return true;
    return check_responder().empty();
}

std::string Side::check_memory() {
    return requester_ ? check_requester() : check_responder();
}

// The results of what succeeded; nothing was written for what failed.
std::string Side::check_requester() {
    if (case_.work != Work::Read && !case_.atomic()) return "";
    const auto& good = outcome_.good();
    for (uint32_t m = 0; m < good.size(); ++m) {
        std::string wrong;
        if (good[m])
            wrong = case_.atomic() ? arena_.check_result(m) : arena_.check_target(m);
        else
            wrong = arena_.check_untouched(m);
        if (!wrong.empty()) return "requester: " + wrong;
    }
    return "";
}

std::string Side::check_responder() {
    for (uint32_t m = 0; m < case_.messages(); ++m) {
        std::string wrong;
        const bool received = m < outcome_.good().size() && outcome_.good()[m];
        const bool named = case_.work == Work::WriteImm;
        if (case_.fault == Fault::QpAccess || case_.fault == Fault::Silent) {
            if (case_.work == Work::Write) wrong = arena_.check_untouched(m);
        } else if (case_.fault != Fault::None && m != 0) {
            // The second is refused, the third flushed: only a receive that succeeded (RNR that ended) has data.
            if (received && !named)
                wrong = arena_.check_target(m);
            else if (case_.work == Work::Write)
                wrong = arena_.check_untouched(m);
        } else if (case_.atomic()) {
            wrong = arena_.check_after(m);
        } else if (case_.work == Work::Read) {
            continue;
        } else if (!case_.may_lose()) {
            wrong = arena_.check_target(m);
        } else if (case_.takes_receive() && !named) {
            if (received) wrong = arena_.check_some_target(m);
        } else {
            wrong = arena_.check_guards(m);
        }
        if (!wrong.empty()) return "responder: " + wrong;
    }
    if (case_.may_lose())
        for (const uint32_t m : outcome_.named())
            if (m >= case_.messages() || (case_.work == Work::WriteImm && !arena_.check_target(m).empty()))
                return "responder: message " + std::to_string(m) + " was reported and is not there";
    return "";
}

}  // namespace interop
