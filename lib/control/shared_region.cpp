// SPDX-License-Identifier: BSD-3-Clause
// SharedRegion: see shared_region.h.
#include "control/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>

namespace rocemu::control {

std::unique_ptr<SharedRegion> SharedRegion::create(uint64_t bytes) {
    UniqueFd fd(memfd_create("rocemu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) return nullptr;
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
    if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return nullptr;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (p == MAP_FAILED) return nullptr;
    return std::unique_ptr<SharedRegion>(new SharedRegion(std::move(fd), static_cast<std::byte*>(p), bytes));
}

SharedRegion::~SharedRegion() {
    munmap(address_, bytes_);
}

}  // namespace rocemu::control
