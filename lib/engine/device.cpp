// SPDX-License-Identifier: BSD-3-Clause
// See device.h.
#include "engine/device.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/dest_qp.h"
#include "wire/flow_key.h"

namespace rocemu::engine {

using stats::Counter;
using wire::DropReason;

namespace {
constexpr size_t kTxBurst = 64;

void free_ring(FramePool& pool, FixedRing<Frame>& ring) {
    for (; !ring.empty(); ring.pop()) pool.free({&ring.front(), 1});
}

Counter counter_of(DropReason reason) {
    switch (reason) {
        case DropReason::PkeyMismatch:
            return Counter::rx_no_pkey_match;
        case DropReason::IcrcMismatch:
            return Counter::rx_icrc_encapsulated;
        case DropReason::NotOurMac:
        case DropReason::NoHandler:
            return Counter::rx_other;
        case DropReason::UnknownQp:
        case DropReason::QpTransport:
            return Counter::rx_unknown_qp;
        case DropReason::QueueFull:
            return Counter::responder_backlog_drops;
        case DropReason::QpState:
            return Counter::rx_dropped_in_state;
        case DropReason::QpNetwork:
        case DropReason::QpSource:
        case DropReason::NotOurGid:
        case DropReason::NotOurVlan:
            return Counter::rx_wrong_peer;
        default:
            return Counter::rx_malformed;
    }
}
}  // namespace

Device::Device(const DeviceSetup& s) : setup(s), info(s.port->info()), mtu(info.mtu), cache(*s.pool) {
    std::copy(std::begin(info.mac), std::end(info.mac), mac.begin());
}

Device::~Device() {
    free_ring(*setup.pool, tx);
    free_ring(*setup.pool, loop);
}

void Device::show(const Frame& frame, bool comes_back) {
    if (tap != nullptr) tap->record(TapDirection::Tx, {frame.data, frame.length}, 0);
    if (groups.empty() || comes_back || wire::same_mac(frame.data, mac)) return;
    if (wire::dest_qp_of({frame.data, frame.length}) == kMulticastQpn) loop_back(frame);
}

void Device::send_raw(Frame frame) {
    // What goes to our own address comes back anyway.
    const bool own = wire::same_mac(frame.data, mac);
    const bool steered = !flows.empty() && !own && !flows.match(wire::flow_key_of({frame.data, frame.length})).empty();
    if (steered) loop_back(frame);
    show(frame, steered);
    (own && !info.receives_own_frames ? loop : tx).push() = frame;
}

// IBTA 10.5.2.2: members at the sender's own port get their copy too; no port returns it.
void Device::loop_back(const Frame& frame) {
    if (loop.full() || !cache.reserve(1)) return;
    Frame copy = cache.take();
    std::memcpy(copy.data, frame.data, frame.length);
    copy.length = frame.length;
    loop.push(copy);
}

bool Device::flush(Instant now) {
    bool any = false;
    while (!tx.empty()) {
        const std::span<Frame> run = tx.front_run();
        const std::span<Frame> burst = run.first(std::min(run.size(), kTxBurst));
        const size_t taken = setup.port->tx_burst(now, burst);
        tx.pop(static_cast<uint32_t>(taken));
        any |= taken != 0;
        if (taken < burst.size()) {  // the port is full: the rest stays, never spin
            counters.add(Counter::tx_port_full);
            return any;
        }
    }
    return any;
}

size_t Device::receive(Instant now, std::span<Frame> frames) {
    // A port that has more than is asked for must not keep the looped ones waiting: while they fill their ring nothing
    // is sent at all.
    const size_t looped = std::min<size_t>(loop.size(), frames.size() / 2);
    size_t n = setup.port->rx_burst(now, frames.first(frames.size() - looped));
    for (; n < frames.size() && !loop.empty(); loop.pop()) frames[n++] = loop.front();
    return n;
}

void Device::seen(const Frame& frame, wire::DropReason reason) {
    if (tap != nullptr) tap->record(TapDirection::Rx, {frame.data, frame.length}, static_cast<uint16_t>(reason));
}

void Device::drop(const Frame& frame, DropReason reason) {
    counters.add(counter_of(reason));
    seen(frame, reason);
}

const LocalAddress* Device::find(const wire::Gid& gid) const {
    const auto it = std::find_if(addresses.begin(), addresses.end(), [&](const auto& a) { return a.gid == gid; });
    return it == addresses.end() ? nullptr : &*it;
}

bool Device::in_vlan(uint16_t vlan) const {
    return std::any_of(addresses.begin(), addresses.end(), [&](const auto& a) { return a.vlan == vlan; });
}

wire::DropReason Device::refusal(const wire::PacketView& packet) const {
    const LocalAddress* ours = find(packet.dst_gid);
    if (ours == nullptr) return wire::DropReason::NotOurGid;
    return ours->vlan == packet.vlan() ? wire::DropReason::None : wire::DropReason::NotOurVlan;
}

}  // namespace rocemu::engine
