// SPDX-License-Identifier: BSD-3-Clause
// QueueArena: first fit over the holes of each region.
#include "control/queue_arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rocemu::control {
namespace {

constexpr uint64_t kFirstRegion = 1u << 20;
constexpr uint64_t kLargestStep = 64u << 20;

uint64_t round_up(uint64_t v, uint64_t to) {
    return (v + to - 1) / to * to;
}

}  // namespace

bool QueueArena::take(uint32_t index, uint64_t bytes, QueueBlock& block) {
    Region& region = regions_[index];
    if (region.retired) return false;
    for (auto it = region.holes.begin(); it != region.holes.end(); ++it) {
        const auto [offset, size] = *it;
        if (size < bytes) continue;
        region.holes.erase(it);
        if (size > bytes) region.holes.emplace(offset + bytes, size - bytes);
        block = {index + 1, offset, bytes, region.memory->address() + offset};
        if (offset < region.touched) std::memset(block.address, 0, std::min(bytes, region.touched - offset));
        region.touched = std::max(region.touched, offset + bytes);
        region.used += bytes;
        used_ += bytes;
        return true;
    }
    return false;
}

int QueueArena::allocate(uint64_t bytes, QueueBlock& block) {
    if (bytes == 0 || bytes > quota_) return ENOMEM;
    bytes = round_up(bytes, kAlign);
    for (uint32_t i = 0; i < regions_.size(); ++i)
        if (take(i, bytes, block)) return 0;

    const uint64_t step = std::clamp(mapped_, kFirstRegion, kLargestStep);
    uint64_t size = round_up(std::max(bytes, step), 4096);
    if (mapped_ + size > quota_) size = round_up(bytes, 4096);
    if (mapped_ + size > quota_) return ENOMEM;
    auto memory = SharedRegion::create(size);
    if (!memory) return errno;
    mapped_ += size;
    Region region;
    region.memory = std::move(memory);
    region.holes.emplace(0, size);
    auto place = std::find_if(regions_.begin(), regions_.end(), [](const Region& r) { return r.memory == nullptr; });
    if (place == regions_.end()) place = regions_.emplace(place);
    *place = std::move(region);
    take(static_cast<uint32_t>(place - regions_.begin()), bytes, block);
    return 0;
}

uint64_t QueueArena::introduce(const QueueBlock& block, std::vector<UniqueFd>& fds) {
    const auto& memory = regions_[block.region - 1].memory;
    UniqueFd fd = memory != nullptr ? memory->take_fd() : UniqueFd{};
    if (!fd) return 0;
    fds.push_back(std::move(fd));
    return memory->bytes();
}

void QueueArena::retire(const QueueBlock& block) {
    regions_[block.region - 1].retired = true;
}

void QueueArena::free(const QueueBlock& block) {
    Region& region = regions_[block.region - 1];
    used_ -= block.bytes;
    region.used -= block.bytes;
    if (region.retired && region.used == 0) {
        mapped_ -= region.memory->bytes();
        region = Region{};
        return;
    }
    uint64_t offset = block.offset, bytes = block.bytes;
    auto next = region.holes.lower_bound(offset);
    if (next != region.holes.end() && next->first == offset + bytes) {
        bytes += next->second;
        next = region.holes.erase(next);
    }
    if (next != region.holes.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == offset) {
            before->second += bytes;
            return;
        }
    }
    region.holes.emplace(offset, bytes);
}

}  // namespace rocemu::control
