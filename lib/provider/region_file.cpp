// SPDX-License-Identifier: BSD-3-Clause
// See region_file.h.
#include "provider/region_file.h"

#include <utility>

#include <unistd.h>

#include "provider/verbs.h"

namespace rocemu::provider {
namespace {
constexpr size_t kLeastShared = 4096;  // less is not worth a look at the mappings
}

RegionFile::RegionFile(const Session& session, const void* address, size_t length, unsigned access, bool convert) {
    const uint64_t features = session.hello().features;
    const bool writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
    const auto va = reinterpret_cast<uint64_t>(address);
    // Every region, whatever it is: where one lies nothing is converted any more.
    if ((features & abi::kFeatureShare) != 0) {
        const Share::Registration made = share().add(va, length, convert && (access & IBV_ACCESS_ON_DEMAND) == 0, writable);
        share_id_ = made.id;
        told_.share_error = static_cast<uint32_t>(made.error);
        if (made.mapped.bytes >= kLeastShared) {
            fd_ = made.file.fd;
            told_.va = made.mapped.va;
            told_.length = made.mapped.bytes;
            told_.offset = made.mapped.offset;
            told_.device = made.file.device;
            told_.inode = made.file.inode;
            return;
        }
    }
    if (length < kLeastShared || (features & abi::kFeatureMapped) == 0) return;
    const SharedFile file = find_shared_file(address, length, writable);
    if (file.fd < 0) return;
    fd_ = file.fd;
    opened_ = file.opened;
    told_ = {va, length, file.offset, file.device, file.inode, 0, 0};
}

RegionFile::~RegionFile() {
    if (opened_) close(fd_);
    if (share_id_ != 0) share().remove(share_id_);
}

uint64_t RegionFile::keep() { return std::exchange(share_id_, 0); }

}  // namespace rocemu::provider
