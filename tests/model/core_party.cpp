// SPDX-License-Identifier: BSD-3-Clause
// See core_party.h.
#include "tests/model/core_party.h"

namespace rocemu::model {

namespace {

transport::QpConfig config_of(const Settings& s, uint32_t who) {
    transport::QpConfig c;
    c.qpn = kQpn[who];
    c.caps = {256, 256, 8, 8, 0};
    c.sq_sig_all = s.sq_sig_all != 0;
    c.pd = sim::kPd;
    c.send_window_wqes = s.send_wqes;
    c.recv_window_wqes = s.recv_wqes;
    c.window_packets = s.window_packets;
    c.dma_window = s.dma_window;
    c.reorder_packets = s.reorder;
    c.reorder_time = 10 * kMicrosecond;
    return c;
}

}  // namespace

CoreParty::CoreParty(const Settings& s, uint32_t who, uint64_t memory_bytes)
    : endpoint_(config_of(s, who), memory_bytes, s.psn_a + who, static_cast<uint8_t>(who + 1)) {
    outlet_.latency = 0;
    outlet_.picoseconds_per_byte = 0;
    endpoint_.memory.slowest = s.slow;
    endpoint_.turn_bytes = s.turn_bytes;
    memory::Region r = *endpoint_.keys.find(kAllKey);
    const auto add = [&](uint32_t key, memory::PdId pd, uint32_t access) {
        r.key = key;
        r.pd = pd;
        r.access = access;
        endpoint_.keys.insert(r);
    };
    add(kDoomedKey, sim::kPd, r.access);
    add(kForeignKey, sim::kPd + 1, r.access);
    add(kPoorKey, sim::kPd, access_flags::kLocalWrite);

    transport::QpAttr a;
    a.port_num = a.ah.port_num = a.ah.is_global = 1;
    a.access_flags = access_flags::kRemoteWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic;
    a.path_mtu = static_cast<uint8_t>(s.mtu);
    a.sq_psn = who == 0 ? s.psn_a : s.psn_b;
    a.rq_psn = who == 0 ? s.psn_b : s.psn_a;
    a.dest_qpn = kQpn[1 - who];
    a.max_rd_atomic = a.max_dest_rd_atomic = static_cast<uint8_t>(s.rd_atomic);
    a.min_rnr_timer = static_cast<uint8_t>(s.rnr_timer);
    a.timeout = static_cast<uint8_t>(s.timeout);
    a.retry_cnt = static_cast<uint8_t>(s.retry_cnt);
    a.rnr_retry = static_cast<uint8_t>(s.rnr_retry);
    endpoint_.connect(a);
    endpoint_.on_completion = [this](const transport::Completion& c) { on_completion(c); };
}

void CoreParty::set_state(QpState to) {
    // A state that the QP has left meanwhile: the application's call fails, which is fine.
    if (state() == QpState::Err) return;
    endpoint_.set_state(to);
}

void CoreParty::pump(Instant now, std::vector<sim::FrameBytes>& out) {
    endpoint_.pump(now, outlet_);
    while (sim::FrameBytes f = outlet_.receive(Instant{kNever.ns - 1})) out.push_back(std::move(f));
}

}  // namespace rocemu::model
