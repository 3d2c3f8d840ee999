// SPDX-License-Identifier: BSD-3-Clause
// See probe.h.
#include "tests/sim/probe.h"

#include "wire/parse.h"

namespace rocemu::sim {

namespace {
constexpr uint32_t kOwnQpn = 0x22, kPeerQpn = 0x11;

transport::QpConfig config_of(const PairOptions& o) {
    transport::QpConfig c = o.config;
    c.qpn = kOwnQpn;
    c.pd = kPd;
    return c;
}
}  // namespace

Probe::Probe(const PairOptions& o)
    : e(config_of(o), o.memory_bytes, o.seed, 2), headers_(make_headers(1)), out_(o.seed) {
    transport::QpAttr attr = o.attr;
    attr.path_mtu = o.path_mtu;
    attr.rq_psn = o.psn_a;
    attr.sq_psn = o.psn_b;
    attr.dest_qpn = kPeerQpn;
    e.connect(attr);
}

Packets Probe::drain() {
    Packets all;
    while (FrameBytes f = out_.receive(Instant{kNever.ns - 1})) {
        Captured c{f, {}};
        (void)wire::parse_frame(*f, c.view);
        all.push_back(std::move(c));
    }
    return all;
}

Packets Probe::poll() {
    e.timers(now);
    e.pump(now, out_);
    return drain();
}

void Probe::hand_in(wire::Opcode op, uint32_t psn, const wire::ExtHeaders& ext, uint32_t payload, bool ack_req) {
    wire::Bth bth;
    bth.opcode = static_cast<uint8_t>(op);
    bth.psn = psn & Psn::kMask;
    bth.dest_qp = kOwnQpn;
    bth.ack_req = ack_req;
    std::vector<std::byte> bytes(payload);
    for (uint32_t i = 0; i < payload; ++i) bytes[i] = static_cast<std::byte>(psn * 31 + i);
    e.deliver(make_frame(headers_, bth, ext, bytes), now);
}

Packets Probe::inject(wire::Opcode op, uint32_t psn, const wire::ExtHeaders& ext, uint32_t payload, bool ack_req) {
    hand_in(op, psn, ext, payload, ack_req);
    return poll();
}

Packets Probe::write(wire::Opcode op, uint32_t psn, uint32_t payload, uint32_t total, uint64_t offset, uint32_t rkey) {
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase + offset, rkey, total};
    return inject(op, psn, ext, payload);
}

Packets Probe::read(uint32_t psn, uint64_t offset, uint32_t length, uint32_t rkey) {
    wire::ExtHeaders ext;
    ext.reth = {kMemoryBase + offset, rkey, length};
    return inject(wire::Opcode::RcReadRequest, psn, ext);
}

Packets Probe::fetch_add(uint32_t psn, uint64_t offset, uint64_t add) {
    wire::ExtHeaders ext;
    ext.atomic_eth = {kMemoryBase + offset, kKey, add, 0};
    return inject(wire::Opcode::RcFetchAdd, psn, ext);
}

Packets Probe::answer(uint32_t psn, uint8_t syndrome, uint32_t msn) {
    wire::ExtHeaders ext;
    ext.aeth = {syndrome, msn};
    return inject(wire::Opcode::RcAcknowledge, psn, ext);
}

}  // namespace rocemu::sim
