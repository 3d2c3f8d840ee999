// SPDX-License-Identifier: BSD-3-Clause
// Commands of control: shared receive queues. See shard_objects.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/shard_impl.h"

namespace rocemu::engine {

void Shard::create_srq(const SrqSetup& setup) {
    auto& srq = impl_->srqs[setup.id];
    srq = std::make_unique<SrqRecord>(setup);
    srq->cq = impl_->cq_ring(setup.cq);
    if (setup.xrcd != 0) impl_->sessions.at(setup.xrcd)->xrc_srqs[setup.id] = srq.get();
}

void Shard::destroy_srq(SrqId id) {
    const auto it = impl_->srqs.find(id);
    if (it == impl_->srqs.end()) return;
    if (it->second->setup.xrcd != 0) impl_->sessions.at(it->second->setup.xrcd)->xrc_srqs.erase(id);
    impl_->srqs.erase(it);
}

void Shard::set_srq_limit(SrqId id, uint32_t limit) {
    SrqRecord& srq = *impl_->srqs.at(id);
    srq.limit = limit;
    srq.check_limit(impl_->completions);
}

uint32_t Shard::srq_limit(SrqId id) const {
    return impl_->srqs.at(id)->limit;
}

int Shard::resize_srq(SrqId id, const QueueView& queue) {
    SrqRecord& srq = *impl_->srqs.at(id);
    QueueReader& from = srq.reader;
    const uint32_t waiting = from.available();
    if (srq.broken || waiting == QueueReader::kBroken || waiting > queue.entries) return EINVAL;
    QueueReader to{queue, from.consumer};
    const uint32_t first = from.consumer;
    for (uint32_t i = 0; i < waiting; ++i, ++from.consumer, ++to.consumer)
        std::memcpy(queue.slots + size_t{to.consumer & (queue.entries - 1)} * queue.stride, from.slot(),
                    std::min(from.view.stride, queue.stride));
    queue.header->producer.store(to.consumer, std::memory_order_release);
    to.consumer = first;
    to.publish();
    from = to;
    return 0;
}

}  // namespace rocemu::engine
