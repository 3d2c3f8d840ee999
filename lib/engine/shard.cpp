// SPDX-License-Identifier: BSD-3-Clause
// Shard: the outside. The loop is in shard_loop.cpp, commands of control are in shard_objects.cpp.
#include "engine/shard.h"

#include <array>
#include <stdexcept>

#include "engine/shard_impl.h"

namespace rocemu::engine {

Shard::Impl::Impl(const ShardConfig& c)
    : config(c),
      waiter(c.wait),
      scheduler(config, placement, parking, transmitter, completions),
      receiver(live, placement, parking, scheduler, completions, notifier, c.icrc_check) {}

Shard::Impl::~Impl() = default;

Device& Shard::Impl::device(DeviceId id) {
    for (auto& d : devices)
        if (d->setup.id == id) return *d;
    throw std::out_of_range("no such device");
}

Shard::Shard(const ShardConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Shard::~Shard() = default;

void Shard::add_device(const DeviceSetup& device) {
    Frame probe;
    if (!device.pool->alloc({&probe, 1})) throw std::invalid_argument("frame pool of " + device.name + " is empty");
    const uint32_t room = probe.room;
    device.pool->free({&probe, 1});
    if (room < 4096 + wire::kMaxOverhead) throw std::invalid_argument("frames of " + device.name + " are too small");
    impl_->devices.push_back(std::make_unique<Device>(device));
    impl_->waiter.watch(device.port->wake_fd());
}

void Shard::stop() {
    impl_->stop.store(true, std::memory_order_release);
    impl_->waiter.wake();
}

bool Shard::submit(std::unique_ptr<ShardCall>& call) {
    if (!impl_->mailbox.push(call.get())) return false;
    (void)call.release();
    impl_->waiter.wake();
    return true;
}

size_t Shard::finish_calls() {
    impl_->notifier.clear_wake();
    size_t total = 0;
    std::array<ShardCall*, 64> calls;
    for (;;) {
        const size_t n = impl_->notifier.take_calls(calls.data(), calls.size());
        for (size_t i = 0; i < n; ++i) {
            const std::unique_ptr<ShardCall> call(calls[i]);
            call->on_control();
        }
        total += n;
        if (n < calls.size()) return total;
    }
}

size_t Shard::poll_events(std::span<ShardEvent> events) {
    return impl_->notifier.take_events(events.data(), events.size());
}

size_t Shard::poll_mads(std::span<ReceivedMad> mads) {
    return impl_->notifier.take_mads(mads.data(), mads.size());
}

int Shard::control_fd() const {
    return impl_->notifier.fd();
}
const ShardLoad& Shard::load() const {
    return impl_->load;
}
const stats::CounterBlock& Shard::counters(DeviceId device) const {
    return impl_->device(device).counters;
}
const stats::CounterBlock& Shard::payload_counters() const {
    return impl_->payload_counters;
}

}  // namespace rocemu::engine
