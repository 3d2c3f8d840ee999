// SPDX-License-Identifier: BSD-3-Clause
// See region_map.h.
#include "provider/region_map.h"

#include <bit>
#include <cerrno>

#include <sys/mman.h>
#include <sys/stat.h>

namespace rocemu::provider {
namespace {
constexpr uint32_t kMaxRegions = 1u << 20;
constexpr uint64_t kMaxRegionBytes = 1ull << 40;

// 0 or errno.
int map(uint32_t region, int fd, uint64_t bytes, std::byte*& base) {
    if (fd < 0) return EMFILE;
    struct stat st{};
    if (region >= kMaxRegions || bytes == 0 || bytes > kMaxRegionBytes || fstat(fd, &st) != 0 ||
        static_cast<uint64_t>(st.st_size) < bytes)
        return EPROTO;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return errno;
    // A child of fork must never touch the queues of its parent.
    madvise(at, bytes, MADV_DONTFORK);
    base = static_cast<std::byte*>(at);
    return 0;
}

}  // namespace

int RegionMap::add(uint32_t region, int fd, uint64_t bytes, bool keep) {
    Region fresh;
    fresh.bytes = bytes;
    fresh.error = map(region, fd, bytes, fresh.base);
    if (!keep && fd >= 0) close(fd);
    if (region >= kMaxRegions) return fresh.error;
    Guard guard(mutex_);
    if (regions_.size() <= region) regions_.resize(region + 1);
    Region& r = regions_[region];
    if (r.base != nullptr) munmap(r.base, r.bytes);
    r = fresh;
    return fresh.error;
}

int RegionMap::take(const abi::QueueRef& ref, uint64_t new_region_bytes, FdList& fds) {
    if (new_region_bytes != 0) return add(ref.region, fds.take(0), new_region_bytes);
    Guard guard(mutex_);
    return ref.region < regions_.size() ? regions_[ref.region].error : 0;
}

std::byte* RegionMap::base(uint32_t region, uint64_t* bytes) {
    Guard guard(mutex_);
    if (region >= regions_.size()) return nullptr;
    *bytes = regions_[region].bytes;
    return regions_[region].base;
}

bool RegionMap::view(const abi::QueueRef& ref, uint64_t offset, QueueView& out) {
    if (ref.entries == 0 || ref.region == abi::kNoRegion) {
        out = {};
        return true;
    }
    uint64_t bytes = 0;
    std::byte* start = base(ref.region, &bytes);
    const uint64_t need = sizeof(abi::QueueHeader) + uint64_t{ref.entries} * ref.stride;
    if (start == nullptr || !std::has_single_bit(ref.entries) || ref.stride == 0 || offset % abi::kCacheLine != 0 ||
        need > bytes || offset > bytes - need)
        return false;
    out.header = reinterpret_cast<abi::QueueHeader*>(start + offset);
    out.slots = start + offset + sizeof(abi::QueueHeader);
    out.entries = ref.entries;
    out.stride = ref.stride;
    return true;
}

}  // namespace rocemu::provider
