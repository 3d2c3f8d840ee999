// SPDX-License-Identifier: BSD-3-Clause
// WriteBarrier: makes threads of this process that write to a piece of memory wait until it has been replaced, reading
// goes on (userfaultfd(2), write protection). Only what threads write themselves waits (UFFD_USER_MODE_ONLY, which needs
// no rights): the kernel on behalf of a program, or of another one, gets EFAULT instead. So no other process can be made
// to wait, this one's daemon above all.
#pragma once

#include <cstdint>

namespace rocemu::provider {

class WriteBarrier {
  public:
    // May this process have one? 0 or errno: EPERM if it is forbidden (seccomp), ENOSYS or EOPNOTSUPP if the kernel cannot
    // (private memory: Linux 5.7, shared memory, which is what the way back needs: 5.19).
    static int available();

    WriteBarrier() = default;
    ~WriteBarrier();  // nothing waits any more
    WriteBarrier(const WriteBarrier&) = delete;
    WriteBarrier& operator=(const WriteBarrier&) = delete;

    // For pieces of [start, start + bytes): private anonymous memory, or a shared mapping of a file in memory. 0 or errno.
    int open(uint64_t start, uint64_t bytes);

    // From hold() to release() or wake() the caller writes nowhere but on its own stack, takes no lock and has all signals
    // blocked: what it writes to might lie in that memory. hold() fails if the program has put something else there since
    // open().
    int hold(uint64_t start, uint64_t bytes);
    void release(uint64_t start, uint64_t bytes);  // the memory stays what it was
    void wake(uint64_t start, uint64_t bytes);     // it has been replaced

  private:
    int fd_ = -1;
};

}  // namespace rocemu::provider
