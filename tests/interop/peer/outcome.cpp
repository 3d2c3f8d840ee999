// SPDX-License-Identifier: BSD-3-Clause
// See outcome.h.
#include "outcome.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace interop {

namespace {

std::string status_name(ibv_wc_status status) {
    static constexpr std::array kNames{"ok",
                                       "local-length",
                                       "local-qp-op",
                                       "local-eec-op",
                                       "local-protection",
                                       "flushed",
                                       "mw-bind",
                                       "bad-response",
                                       "local-access",
                                       "remote-invalid-request",
                                       "remote-access",
                                       "remote-operation",
                                       "retry-exceeded",
                                       "rnr-retry-exceeded"};
    if (static_cast<size_t>(status) < kNames.size()) return kNames[status];
    return ibv_wc_status_str(status);
}

std::string opcode_name(ibv_wc_opcode opcode) {
    switch (opcode) {
        case IBV_WC_SEND:
            return "SEND";
        case IBV_WC_RDMA_WRITE:
            return "RDMA_WRITE";
        case IBV_WC_RDMA_READ:
            return "RDMA_READ";
        case IBV_WC_COMP_SWAP:
            return "COMP_SWAP";
        case IBV_WC_FETCH_ADD:
            return "FETCH_ADD";
        case IBV_WC_RECV:
            return "RECV";
        case IBV_WC_RECV_RDMA_WITH_IMM:
            return "RECV_RDMA_WITH_IMM";
        default:
            return "opcode" + std::to_string(opcode);
    }
}

}  // namespace

uint32_t immediate_of(uint32_t message) {
    return htonl(0x11220000u + message);
}

void Outcome::add_refused(uint32_t message, int error) {
    refused_.push_back(std::to_string(message) + ":" + std::strerror(error));
}

void Outcome::add_send(const Case&, const ibv_wc& wc) {
    // A refused one has no completion.
    while (next_ < wc.wr_id && std::any_of(refused_.begin(), refused_.end(), [&](const std::string& r) {
               return r.rfind(std::to_string(next_) + ":", 0) == 0;
           })) {
        ++next_;
        good_.push_back(false);
    }
    std::string entry = status_name(wc.status);
    // Only wr_id, status, qp_num and vendor_err of an error are valid.
    if (wc.status == IBV_WC_SUCCESS) entry += ":" + opcode_name(wc.opcode);
    if (wc.wr_id != next_) entry += "(out of order: " + std::to_string(wc.wr_id) + ")";
    ++next_;
    good_.push_back(wc.status == IBV_WC_SUCCESS);
    entries_.push_back(entry);
}

void Outcome::add_receive(const Case& c, const ibv_wc& wc, uint32_t invalidated) {
    std::string entry = status_name(wc.status);
    if (wc.status == IBV_WC_SUCCESS) {
        entry += ":" + opcode_name(wc.opcode);
        const uint32_t expected = c.size + (c.service == Service::Ud ? 40 : 0);
        if (wc.byte_len != expected) entry += ":length(" + std::to_string(wc.byte_len) + ")";
        const bool imm = c.work == Work::SendImm || c.work == Work::WriteImm;
        if (((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != imm)
            entry += imm ? ":no-immediate" : ":immediate?";
        else if (imm && !c.may_lose() && wc.imm_data != immediate_of(next_))
            entry += ":immediate-wrong";
        else if (imm)
            entry += ":imm";
        if (imm) named_.push_back(ntohl(wc.imm_data) - ntohl(immediate_of(0)));
        if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) entry += wc.invalidated_rkey == invalidated ? ":inv" : ":inv-wrong";
    }
    if (wc.wr_id != next_) entry += "(out of order: " + std::to_string(wc.wr_id) + ")";
    ++next_;
    good_.push_back(wc.status == IBV_WC_SUCCESS);
    entries_.push_back(entry);
}

void Outcome::add_events(const std::vector<std::string>& names) {
    events_.insert(events_.end(), names.begin(), names.end());
    std::sort(events_.begin(), events_.end());
}

std::string Outcome::text(const std::string& qp_state) const {
    std::string out;
    for (size_t i = 0; i < entries_.size();) {
        size_t n = i;
        while (n < entries_.size() && entries_[n] == entries_[i]) ++n;
        out += std::to_string(n - i) + "*" + entries_[i] + " ";
        i = n;
    }
    out += "qp=" + qp_state;
    for (const std::string& r : refused_) out += " refused=" + r;
    for (const std::string& e : events_) out += " ev=" + e;
    return out;
}

}  // namespace interop
