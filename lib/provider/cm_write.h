// SPDX-License-Identifier: BSD-3-Clause
// The write() interface of /dev/infiniband/rdma_cm: one command a write, its answer at an address that the command
// names. Read <rdma/rdma_user_cm.h>.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "provider/cm_files.h"

namespace rocemu::provider {

// As write(2): `size`, or -1 with errno.
ssize_t write_cm_command(int fd, const CmFile& file, const void* data, size_t size);

}  // namespace rocemu::provider
