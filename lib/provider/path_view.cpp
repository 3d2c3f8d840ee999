// SPDX-License-Identifier: BSD-3-Clause
// See path_view.h. Called for every path of the application: any other path costs a comparison.
#include "provider/path_view.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "abi/socket_path.h"
#include "provider/process.h"
#include "provider/real_libc.h"

namespace rocemu::provider {
namespace {

thread_local int suspended = 0;
constexpr char kDevices[] = "/dev/infiniband/";
constexpr const char* kPrefixes[] = {"/sys/class/infiniband", "/sys/class/misc/rdma_cm", "/dev/infiniband"};

bool is_ours(const char* path) {
    if (path == nullptr || path[0] != '/' || (path[1] != 's' && path[1] != 'd')) return false;
    for (const char* prefix : kPrefixes)
        if (std::strncmp(path, prefix, std::strlen(prefix)) == 0) return true;
    return false;
}

}  // namespace

PathView::PathView(const char* path) : path_(path) {
    if (!is_ours(path) || suspended != 0) return;
    const int error = errno;
    if (current_session() != nullptr) {
        const std::string full = abi::view_directory(abi::default_socket_path()) + path;
        if (full.size() < sizeof buffer_ && syscall(SYS_faccessat, AT_FDCWD, full.c_str(), F_OK) == 0) {
            std::memcpy(buffer_, full.c_str(), full.size() + 1);
            path_ = buffer_;
            device_ = std::strncmp(path, kDevices, sizeof kDevices - 1) == 0 && path[sizeof kDevices - 1] != '\0';
        }
    }
    errno = error;
}

PathView::Suspend::Suspend() {
    ++suspended;
}
PathView::Suspend::~Suspend() {
    --suspended;
}

bool PathView::restore(char* path) {
    char root[PATH_MAX];
    if (libc().realpath(abi::view_directory(abi::default_socket_path()).c_str(), root) == nullptr) return false;
    const size_t n = std::strlen(root);
    if (std::strncmp(path, root, n) != 0 || path[n] != '/') return false;
    std::memmove(path, path + n, std::strlen(path + n) + 1);
    return true;
}

}  // namespace rocemu::provider
