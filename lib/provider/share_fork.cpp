// SPDX-License-Identifier: BSD-3-Clause
// Share at fork(2): what private memory would have got by copy-on-write the child copies at once. The parent waits for it:
// its thread that forked must not change first what the child is to find. (Its other threads, and the NIC, go on.)
// In the child nothing is called but system calls: other threads may have held any lock.
#include <cerrno>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider/maps_reader.h"
#include "provider/share.h"

namespace rocemu::provider {
namespace {

void close_both(int (&fds)[2]) {
    for (int& fd : fds) {
        if (fd >= 0) syscall(SYS_close, fd);
        fd = -1;
    }
}

}  // namespace

// Nothing is half converted while the lock is held.
void Share::before_fork() {
    lock_.lock();
    // Without descriptors the parent does not wait.
    if (!slots_.empty() && pipe2(fork_pipe_, O_CLOEXEC) != 0) fork_pipe_[0] = fork_pipe_[1] = -1;
}

void Share::in_parent() {
    if (fork_pipe_[0] >= 0) {
        // The end of file: there is no child (any more).
        syscall(SYS_close, fork_pipe_[1]);
        fork_pipe_[1] = -1;
        char done = 0;
        while (syscall(SYS_read, fork_pipe_[0], &done, 1) < 0 && errno == EINTR) {
        }
        close_both(fork_pipe_);
    }
    lock_.unlock();
}

void Share::copy_mappings() const {
    MapsReader maps;
    for (Vma vma; maps.next(vma);) {
        if (!vma.shared || !vma.is_of(file_.device, file_.inode)) continue;
        const int error = make_private(file_, {vma.start, vma.end, vma.offset, vma.protection()}, Writers::None);
        // Better none than the parent's.
        if (error != 0 && error != EBUSY) mprotect(reinterpret_cast<void*>(vma.start), vma.end - vma.start, PROT_NONE);
    }
}

void Share::in_child() {
    if (file_.inode != 0) copy_mappings();
    const char done = 1;
    if (fork_pipe_[1] >= 0) (void)syscall(SYS_write, fork_pipe_[1], &done, 1);
    close_both(fork_pipe_);
    if (file_is_open()) syscall(SYS_close, file_.fd);
    // Registrations are the parent's. What is left behind is not destroyed: that would free memory.
    new (this) Share;
}

}  // namespace rocemu::provider
