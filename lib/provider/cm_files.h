// SPDX-License-Identifier: BSD-3-Clause
// The open files of /dev/infiniband/rdma_cm: event channels of librdmacm. Such a descriptor is one end of a SEQPACKET
// pair whose other end the daemon holds: poll, O_NONBLOCK, dup into children and close work as for any socket, and the
// daemon sees when the last copy is closed. Commands are written to it (cm_write.cpp).
#pragma once

#include <cstdint>

#include "provider/session.h"

struct stat;

namespace rocemu::provider {

inline constexpr char kCmDevice[] = "/dev/infiniband/rdma_cm";

struct CmFile {
    Session* session = nullptr;
    uint32_t channel = 0;
};

// A new descriptor, or -1 with errno. `flags` as for open(2).
int open_cm_file(int flags);
// False, in no time, for any other descriptor.
bool find_cm_file(int fd, CmFile& out);
// What fstat(2) says about it: a character device.
void describe_cm_file(struct stat& info);
// Child of a fork only.
void forget_cm_files();

}  // namespace rocemu::provider
