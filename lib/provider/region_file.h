// SPDX-License-Identifier: BSD-3-Clause
// What the daemon is told of the file behind a region, when it is registered: a file of the program's own that is mapped
// there, or ours, in which the region's pages lie since they were made shared for it (share.h).
#pragma once

#include <cerrno>

#include "provider/session.h"
#include "provider/share.h"
#include "provider/shared_file.h"

namespace rocemu::provider {

class RegionFile {
  public:
    // `convert`: private memory may become shared for it.
    RegionFile(const Session& session, const void* address, size_t length, unsigned access, bool convert);
    ~RegionFile();  // what was made shared becomes private again, unless kept
    RegionFile(const RegionFile&) = delete;
    RegionFile& operator=(const RegionFile&) = delete;

    // The request, with the file.
    template <typename Request, typename Reply>
    int call(Session& session, Request& request, Reply& reply) const {
        request.file = told_;
        const int rc = session.call(request, reply, {&fd_, fd_ >= 0 ? size_t{1} : size_t{0}});
        // The program has closed it meanwhile, or too many descriptors are on their way: nothing depends on it.
        return fd_ >= 0 && (rc == EBADF || rc == ETOOMANYREFS) ? session.call(request, reply) : rc;
    }
    // The registration is made: for Share::remove() at its end; 0: nothing to be removed.
    [[nodiscard]] uint64_t keep();

  private:
    uint64_t share_id_ = 0;
    int fd_ = -1;
    bool opened_ = false;
    abi::RegionFile told_;
};

}  // namespace rocemu::provider
