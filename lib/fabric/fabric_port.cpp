// SPDX-License-Identifier: BSD-3-Clause
// See fabric_port.h.
#include "fabric/fabric_port.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fabric/fabric_internal.h"
#include "wire/dest_qp.h"

namespace rocemu::fabric {

namespace {
constexpr uint32_t kMulticastQpn = 0xffffff;
}  // namespace

FabricPort::Impl::Impl(Switch::Impl& s, Nic& n, uint32_t nic_index, uint32_t shard_index)
    : net(s), nic(n), index(nic_index), shard(shard_index), impairer(*n.pool, counters) {}

FabricPort::Impl::~Impl() = default;

Inbox& FabricPort::Impl::inbox_of(Nic& to, const engine::Frame& frame) const {
    if (net.shards == 1) return *to.inboxes[0];
    const uint32_t qpn = wire::dest_qp_of({frame.data, frame.length});
    return *to.inboxes[qpn == wire::kNoDestQp ? 0 : wire::shard_of_qpn(qpn, net.shards)];
}

// nullptr: a group or unknown address.
Inbox* FabricPort::Impl::target(const engine::Frame& frame) const {
    if (std::to_integer<uint8_t>(frame.data[0]) & 1) return nullptr;  // IEEE 802: a group
    for (auto& to : net.nics)
        if (wire::same_mac(frame.data, to->mac)) return &inbox_of(*to, frame);
    return nullptr;
}

size_t FabricPort::Impl::deliver(Inbox& inbox, std::span<const engine::Frame> frames) {
    const size_t n = inbox.rings[shard]->push(frames);
    if (n != 0) inbox.wake_if_sleeping();
    return n;
}

// Group and unknown addresses: a copy for every other NIC. Only for such frames a full receiver loses its copy: they
// are rare (ARP) and repeated by their protocols.
void FabricPort::Impl::flood(engine::Frame& frame) {
    // Members of a multicast group may be on any shard, of this NIC too.
    const bool group = wire::dest_qp_of({frame.data, frame.length}) == kMulticastQpn;
    for (auto& to : net.nics) {
        if (!group) {
            // For none of its QPs: for the rules of raw packet QPs, which are on shard 0 (engine/flows.h).
            if (to.get() != &nic) send_copy(frame, *to->inboxes[0]);
            continue;
        }
        for (uint32_t s = 0; s < net.shards; ++s)
            if (to.get() != &nic || s != shard) send_copy(frame, *to->inboxes[s]);
    }
    nic.pool->free({&frame, 1});
}

void FabricPort::Impl::send_copy(const engine::Frame& frame, Inbox& inbox) {
    engine::Frame copy;
    if (!nic.pool->alloc({&copy, 1})) return;
    if (copy.room >= frame.length) {
        std::memcpy(copy.data, frame.data, frame.length);
        copy.length = frame.length;
        if (deliver(inbox, {&copy, 1}) == 1) return;
    }
    nic.pool->free({&copy, 1});
}

// Frames to one receiver are handed over together: its ring and its wake-up word are touched once.
size_t FabricPort::Impl::forward(std::span<engine::Frame> frames) {
    size_t n = 0;
    while (n < frames.size()) {
        Inbox* to = target(frames[n]);
        if (to == nullptr) {
            flood(frames[n++]);
            continue;
        }
        size_t end = n + 1;
        // Of one shard a NIC has one inbox, whatever the QP.
        const uint64_t mac = wire::mac_number(frames[n].data);
        const auto same = [&](const engine::Frame& frame) {
            return net.shards == 1 ? wire::mac_number(frame.data) == mac : target(frame) == to;
        };
        while (end < frames.size() && same(frames[end])) ++end;
        const size_t taken = deliver(*to, frames.subspan(n, end - n));
        n += taken;
        if (n < end) break;
    }
    return n;
}

FabricPort::FabricPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FabricPort::~FabricPort() = default;

size_t FabricPort::rx_burst(Instant now, std::span<engine::Frame> frames) {
    // Frames that wait for their time leave also when nothing new is sent.
    if (!impl_->impairer.transparent()) tx_burst(now, {});
    Inbox& inbox = *impl_->nic.inboxes[impl_->shard];
    const auto rings = static_cast<uint32_t>(inbox.rings.size());
    size_t n = 0;
    for (uint32_t i = 0; i < rings && n < frames.size(); ++i)
        n += inbox.rings[(impl_->next_ring + i) % rings]->pop(frames.subspan(n));
    impl_->next_ring = rings == 1 ? 0 : (impl_->next_ring + 1) % rings;
    return n;
}

size_t FabricPort::tx_burst(Instant now, std::span<engine::Frame> frames) {
    Impl& p = *impl_;
    if (p.nic.live.version.load(std::memory_order_relaxed) != p.settings_seen) {
        Impairments settings;
        if (p.nic.live.load(p.settings_seen, settings)) p.impairer.configure(settings, p.shard);
    }
    if (p.impairer.transparent()) return p.forward(frames);
    size_t n = 0;
    bool blocked = false;
    while (!blocked) {
        engine::Frame* out = p.impairer.ready(now);
        if (out != nullptr) {
            blocked = p.forward({out, 1}) == 0;
            if (!blocked) p.impairer.pop();
        } else if (n < frames.size() && !p.impairer.full()) {
            p.impairer.take(now, frames[n++]);
        } else {
            break;
        }
    }
    return n;
}

Instant FabricPort::next_deadline() const {
    return impl_->impairer.next_deadline();
}

int FabricPort::wake_fd() const {
    return impl_->nic.inboxes[impl_->shard]->event_fd;
}

void FabricPort::prepare_sleep() {
    Inbox& inbox = *impl_->nic.inboxes[impl_->shard];
    uint64_t count;
    [[maybe_unused]] const auto n = read(inbox.event_fd, &count, sizeof count);
    inbox.sleeping.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with wake_if_sleeping
}

void FabricPort::end_sleep() {
    impl_->nic.inboxes[impl_->shard]->sleeping.store(0, std::memory_order_relaxed);
}

engine::PortInfo FabricPort::info() const {
    engine::PortInfo info;
    std::copy(impl_->nic.mac.begin(), impl_->nic.mac.end(), info.mac);
    info.mtu = impl_->nic.mtu;
    info.speed_mbps = 100'000;
    info.receives_own_frames = true;
    return info;
}

const stats::CounterBlock& FabricPort::counters() const {
    return impl_->counters;
}

}  // namespace rocemu::fabric
