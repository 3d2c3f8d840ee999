// SPDX-License-Identifier: BSD-3-Clause
// See switch.h.
#include "fabric/switch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>

#include "fabric/fabric_internal.h"

namespace rocemu::fabric {

namespace {
constexpr uint32_t kInboxFrames = 1024;  // per sending shard
}  // namespace

Inbox::Inbox(uint32_t shards) : event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (uint32_t i = 0; i < shards; ++i) rings.push_back(std::make_unique<SpscRing<engine::Frame>>(kInboxFrames));
}

Inbox::~Inbox() {
    if (event_fd >= 0) close(event_fd);
}

void Inbox::wake_if_sleeping() {
    // Pairs with prepare_sleep: either the sleeper sees the frame or we see that it sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_relaxed) == 0 || sleeping.exchange(0) == 0) return;
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(event_fd, &one, sizeof one);
}

void LiveImpairments::store(const Impairments& v) {
    version.fetch_add(1, std::memory_order_acq_rel);
    seed.store(v.seed, std::memory_order_relaxed);
    drop.store(v.drop_ppm, std::memory_order_relaxed);
    duplicate.store(v.duplicate_ppm, std::memory_order_relaxed);
    reorder.store(v.reorder_ppm, std::memory_order_relaxed);
    corrupt.store(v.corrupt_ppm, std::memory_order_relaxed);
    delay.store(v.delay, std::memory_order_relaxed);
    version.fetch_add(1, std::memory_order_release);
}

bool LiveImpairments::load(uint32_t& version_seen, Impairments& out) const {
    const uint32_t before = version.load(std::memory_order_acquire);
    if (before & 1) return false;
    const Impairments v{seed.load(std::memory_order_relaxed),      drop.load(std::memory_order_relaxed),
                        duplicate.load(std::memory_order_relaxed), reorder.load(std::memory_order_relaxed),
                        corrupt.load(std::memory_order_relaxed),   delay.load(std::memory_order_relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version.load(std::memory_order_relaxed) != before) return false;
    version_seen = before;
    out = v;
    return true;
}

Switch::Switch(uint32_t shards) : impl_(std::make_unique<Impl>()) {
    impl_->shards = shards ? shards : 1;
}

Switch::~Switch() {
    engine::Frame frame;
    for (auto& nic : impl_->nics)
        for (auto& inbox : nic->inboxes)
            for (auto& ring : inbox->rings)
                while (ring->pop({&frame, 1}) == 1) nic->pool->free({&frame, 1});
}

uint32_t Switch::add_nic(const std::array<uint8_t, 6>& mac, uint32_t mtu, engine::FramePool& pool) {
    const auto index = static_cast<uint32_t>(impl_->nics.size());
    auto nic = std::make_unique<Nic>();
    nic->mac = mac;
    nic->mtu = mtu;
    nic->pool = &pool;
    for (uint32_t s = 0; s < impl_->shards; ++s) {
        nic->inboxes.push_back(std::make_unique<Inbox>(impl_->shards));
        auto impl = std::make_unique<FabricPort::Impl>(*impl_, *nic, index, s);
        nic->ports.push_back(std::unique_ptr<FabricPort>(new FabricPort(std::move(impl))));
    }
    impl_->nics.push_back(std::move(nic));
    return index;
}

FabricPort& Switch::port(uint32_t nic, uint32_t shard) {
    assert(nic < impl_->nics.size() && shard < impl_->shards);
    return *impl_->nics[nic]->ports[shard];
}

void Switch::set_impairments(uint32_t nic, const Impairments& impairments) {
    impl_->nics[nic]->current = impairments;
    impl_->nics[nic]->live.store(impairments);
}

Impairments Switch::impairments(uint32_t nic) const {
    return impl_->nics[nic]->current;
}

}  // namespace rocemu::fabric
