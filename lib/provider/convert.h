// SPDX-License-Identifier: BSD-3-Clause
// Memory of this process changes its kind where it lies, while other threads use it: private pages become a shared mapping
// of a file and become private again. In windows: a thread that writes into the present one waits some microseconds, none
// loses a write. What this cannot keep: docs/adr/0013-share.md.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace rocemu::provider {

inline constexpr uint64_t kPageBytes = 4096;

// The file that takes private pages: only mappings of ours are of it.
struct ConversionFile {
    int fd = -1;
    dev_t device = 0;
    ino_t inode = 0;
};

// A piece with one protection, whole pages.
struct Piece {
    uint64_t start = 0, end = 0;
    uint64_t offset = 0;  // of `start`, in the file
    int protection = 0;   // PROT_*
    bool dont_fork = false, dont_dump = false, locked = false;  // madvise(2), mlock(2)

    [[nodiscard]] uint64_t bytes() const { return end - start; }
};

// Private anonymous memory becomes a mapping of the file; what is zero takes no memory there. 0 or errno. `piece` ends
// where it was stopped.
int make_shared(const ConversionFile& file, Piece& piece);

enum class Writers { Wait, None };  // None: this thread is the only one (a child of fork)

// The way back. 0; errno: some of it is as it was.
int make_private(const ConversionFile& file, const Piece& piece, Writers writers);

// Does the caller run on a stack in [start, end), or near it? Its own writes would wait for itself.
bool near_this_stack(uint64_t start, uint64_t end);

}  // namespace rocemu::provider
