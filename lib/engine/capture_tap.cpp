// SPDX-License-Identifier: BSD-3-Clause
// See capture_tap.h. A byte ring of records: a header (the record's size and TapRecord), then the captured bytes,
// padded to 8. A size of 0 means: the rest of the ring is unused, go on at its start.
#include "engine/capture_tap.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace rocemu::engine {

namespace {

struct Stored {
    uint64_t size = 0;  // of header and padded bytes
    TapRecord record;
};
static_assert(sizeof(Stored) % 8 == 0);

int64_t wall_clock_ns() {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

struct CaptureTap::Impl {
    Impl(uint32_t bytes, uint32_t snap)
        : size(std::bit_ceil(std::max(bytes, 4096u))), snap_length(snap), ring(new std::byte[size]()) {}

    const uint64_t size;
    const uint32_t snap_length;
    const std::unique_ptr<std::byte[]> ring;
    // Free-running byte positions; release by the owner, acquire by the partner.
    alignas(64) std::atomic<uint64_t> head{0};  // reader
    alignas(64) std::atomic<uint64_t> tail{0};  // writer
    std::atomic<uint64_t> missed{0};            // writer
};

CaptureTap::CaptureTap(uint32_t ring_bytes, uint32_t snap_length)
    : impl_(std::make_unique<Impl>(ring_bytes, snap_length == 0 ? 65535 : snap_length)) {}
CaptureTap::~CaptureTap() = default;

void CaptureTap::record(TapDirection direction, std::span<const std::byte> frame, uint16_t drop_reason) {
    Impl& r = *impl_;
    Stored s;
    s.record.captured = static_cast<uint32_t>(std::min<size_t>(frame.size(), r.snap_length));
    s.record.length = static_cast<uint32_t>(frame.size());
    s.size = sizeof s + (uint64_t{s.record.captured} + 7) / 8 * 8;
    uint64_t tail = r.tail.load(std::memory_order_relaxed);
    const uint64_t to_end = r.size - (tail & (r.size - 1));
    const uint64_t skip = s.size > to_end ? to_end : 0;  // records are contiguous
    if (skip + s.size > r.size - (tail - r.head.load(std::memory_order_acquire))) {
        r.missed.store(r.missed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
    }
    if (skip != 0) {
        const uint64_t none = 0;
        std::memcpy(&r.ring[tail & (r.size - 1)], &none, sizeof none);
        tail += skip;
    }
    s.record.unix_ns = wall_clock_ns();
    s.record.direction = direction;
    s.record.drop_reason = drop_reason;
    std::byte* p = &r.ring[tail & (r.size - 1)];
    std::memcpy(p, &s, sizeof s);
    std::memcpy(p + sizeof s, frame.data(), s.record.captured);
    r.tail.store(tail + s.size, std::memory_order_release);
}

bool CaptureTap::read(TapRecord& record, std::span<std::byte> out) {
    Impl& r = *impl_;
    uint64_t head = r.head.load(std::memory_order_relaxed);
    if (head == r.tail.load(std::memory_order_acquire)) return false;
    uint64_t size;
    std::memcpy(&size, &r.ring[head & (r.size - 1)], sizeof size);
    if (size == 0) head += r.size - (head & (r.size - 1));  // the writer never ends with a skip
    Stored s;
    std::memcpy(&s, &r.ring[head & (r.size - 1)], sizeof s);
    record = s.record;
    record.captured = static_cast<uint32_t>(std::min<size_t>(s.record.captured, out.size()));
    std::memcpy(out.data(), &r.ring[(head & (r.size - 1)) + sizeof s], record.captured);
    r.head.store(head + s.size, std::memory_order_release);
    return true;
}

uint64_t CaptureTap::missed() const {
    return impl_->missed.load(std::memory_order_relaxed);
}

}  // namespace rocemu::engine
