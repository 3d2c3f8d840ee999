// SPDX-License-Identifier: BSD-3-Clause
// The file behind a piece of this process's memory: where it is one shared mapping (shm_open, memfd, a file in /dev/shm)
// whose descriptor can be found, the daemon can map it too and needs no other way to it. See proc(5), maps and fd.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rocemu::provider {

struct SharedFile {
    int fd = -1;         // -1: none was found
    bool opened = false;  // the caller is to close it; else it is the program's own, which may do with it what it likes
    uint64_t offset = 0;
    uint64_t device = 0, inode = 0;  // fstat(2)
};

// Memory that is anything else (private, anonymous, several mappings, no descriptor) has none.
SharedFile find_shared_file(const void* address, size_t length, bool writable);

}  // namespace rocemu::provider
