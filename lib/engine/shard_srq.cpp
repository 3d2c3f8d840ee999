// SPDX-License-Identifier: BSD-3-Clause
// Commands of control: shared receive queues. See shard_objects.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/shard_impl.h"

namespace rocemu::engine {

void Shard::create_srq(const SrqSetup& setup) {
    impl_->srqs[setup.id] = std::make_unique<SrqRecord>(setup);
}

void Shard::destroy_srq(SrqId id) {
    impl_->srqs.erase(id);
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
