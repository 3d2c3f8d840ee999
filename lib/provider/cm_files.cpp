// SPDX-License-Identifier: BSD-3-Clause
// See cm_files.h. The table is looked at for every write of the application, so the answer "not ours" costs one load.
// A descriptor may be closed in ways nobody tells us of (dup2, close_range, inside the C library): an entry is believed
// only while the descriptor is still the same socket.
#include "provider/cm_files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "provider/process.h"
#include "provider/real_libc.h"
#include "provider/verbs.h"

namespace rocemu::provider {
namespace {

constexpr int kMaxFd = 1 << 16;
struct Entry {
    std::atomic<ino_t> inode;  // of the socket; 0: none. Stored after `file`, under the lock
    CmFile file;
};
Entry entries[kMaxFd];  // pages come as descriptors are used
Mutex lock;

constexpr unsigned kMiscMajor = 10, kUsualMinor = 58;

}  // namespace

int open_cm_file(int flags) {
    Session* session = current_session();
    if (session == nullptr) return fail_minus_one(ENODEV);
    const int type = SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0) | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0);
    int pair[2];
    if (socketpair(AF_UNIX, type, 0, pair) != 0) return -1;
    abi::CmOpenChannelReply reply;
    const int rc = session->call(abi::CmOpenChannelRequest{}, reply, {&pair[1], 1});
    close(pair[1]);
    struct stat info {};
    const int error = rc != 0 ? rc : pair[0] >= kMaxFd ? EMFILE : libc().fstat(pair[0], &info) != 0 ? errno : 0;
    if (error != 0) {
        close(pair[0]);
        return fail_minus_one(error);
    }
    Guard guard(lock);
    entries[pair[0]].file = {session, reply.channel};
    entries[pair[0]].inode = info.st_ino;
    return pair[0];
}

bool find_cm_file(int fd, CmFile& out) {
    if (fd < 0 || fd >= kMaxFd || entries[fd].inode.load(std::memory_order_relaxed) == 0) return false;
    struct stat info {};
    const bool open = libc().fstat(fd, &info) == 0;
    Guard guard(lock);
    Entry& entry = entries[fd];
    if (entry.inode == 0) return false;
    if (!open || !S_ISSOCK(info.st_mode) || info.st_ino != entry.inode) {
        entry.inode = 0;  // closed behind our back, the number may be anybody's
        return false;
    }
    out = entry.file;
    return true;
}

void describe_cm_file(struct stat& info) {
    info.st_mode = S_IFCHR | 0666;
    info.st_rdev = makedev(kMiscMajor, kUsualMinor);
    // Where the host has the module, librdmacm compares with the number the kernel told it.
    struct stat node {};
    if (libc().stat(kCmDevice, &node) == 0 && S_ISCHR(node.st_mode)) info.st_rdev = node.st_rdev;
}

void forget_cm_files() {
    lock.forget();
}

}  // namespace rocemu::provider
