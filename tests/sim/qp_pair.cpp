// SPDX-License-Identifier: BSD-3-Clause
// See qp_pair.h.
#include "tests/sim/qp_pair.h"

namespace rocemu::sim {

using namespace transport;

namespace {
constexpr uint32_t kQpnA = 0x11, kQpnB = 0x22;

QpConfig config_of(const PairOptions& o, uint32_t qpn) {
    QpConfig c = o.config;
    c.qpn = qpn;
    c.pd = kPd;
    if (qpn == kQpnB) c.type = o.type_b.value_or(c.type);
    return c;
}
}  // namespace

PairOptions::PairOptions() {
    config.caps = {256, 256, 8, 8, 0};
    attr.port_num = 1;
    attr.access_flags = access_flags::kRemoteWrite | access_flags::kRemoteRead | access_flags::kRemoteAtomic;
    attr.ah.is_global = 1;
    attr.ah.port_num = 1;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    attr.timeout = 10;  // 4.2 ms
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
}

QpPair::QpPair(const PairOptions& o)
    : a(config_of(o, kQpnA), o.memory_bytes, o.seed + 1, 1),
      b(config_of(o, kQpnB), o.memory_bytes, o.seed + 2, 2),
      ab(o.seed * 2 + 3),
      ba(o.seed * 2 + 4) {
    QpAttr attr = o.attr;
    attr.path_mtu = o.path_mtu;
    attr.sq_psn = o.psn_a;
    attr.rq_psn = o.psn_b;
    attr.dest_qpn = kQpnB;
    a.connect(attr);
    std::swap(attr.sq_psn, attr.rq_psn);
    attr.dest_qpn = kQpnA;
    b.connect(attr);
}

bool QpPair::step(Instant limit) {
    a.pump(now, ab);
    b.pump(now, ba);
    const Instant next = std::min({ab.next_arrival(), ba.next_arrival(), a.next_event(), b.next_event()});
    if (next == kNever || next > limit) return false;
    now = std::max(now, next);
    ++steps;
    while (FrameBytes f = ab.receive(now)) b.deliver(f, now);
    while (FrameBytes f = ba.receive(now)) a.deliver(f, now);
    a.timers(now);
    b.timers(now);
    return true;
}

bool QpPair::run(const std::function<bool()>& done, Duration limit) {
    const Instant end = now + limit;
    while (!done())
        if (!step(end)) return done();
    return true;
}

void QpPair::settle(Duration limit) {
    run([] { return false; }, limit);
}

}  // namespace rocemu::sim
