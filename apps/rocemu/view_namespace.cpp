// SPDX-License-Identifier: BSD-3-Clause
// See view_namespace.h. A directory that must show more than the kernel lets us create in it is covered by a tmpfs, in
// which everything that was there is mounted again and the view's entries beside it. mount_namespaces(7),
// user_namespaces(7).
#include "view_namespace.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <set>

namespace rocemu::cli {
namespace {

std::string failure(const std::string& what) {
    return what + ": " + std::strerror(errno);
}

bool write_file(const char* path, const std::string& text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(fd);
    return ok;
}

// A mount namespace of our own: root has the right to it, others get it in a user namespace in which they stay who
// they are.
std::string enter() {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (unshare(CLONE_NEWNS) != 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return failure("no user namespace is allowed here");
        write_file("/proc/self/setgroups", "deny");
        const auto same = [](unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
        if (!write_file("/proc/self/uid_map", same(uid)) || !write_file("/proc/self/gid_map", same(gid)))
            return failure("the user namespace takes no mapping");
    }
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failure("mount /");
    return {};
}

bool exists(const std::string& path) {
    struct stat s;
    return lstat(path.c_str(), &s) == 0;
}

// Makes `target` show `source`, whatever that is. False and errno.
bool show(const std::string& source, const std::string& target) {
    struct stat s;
    if (lstat(source.c_str(), &s) != 0) return false;
    if (S_ISLNK(s.st_mode)) {
        char to[PATH_MAX];
        const ssize_t n = readlink(source.c_str(), to, sizeof to - 1);
        if (n < 0) return false;
        to[n] = '\0';
        return symlink(to, target.c_str()) == 0;
    }
    if (S_ISDIR(s.st_mode)) {
        if (mkdir(target.c_str(), 0755) != 0) return false;
    } else {
        const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0) return false;
        close(fd);
    }
    return mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

std::set<std::string> entries_of(const std::string& directory) {
    std::set<std::string> names;
    DIR* d = opendir(directory.c_str());
    if (d == nullptr) return names;
    while (const dirent* e = readdir(d))
        if (std::strcmp(e->d_name, ".") != 0 && std::strcmp(e->d_name, "..") != 0) names.insert(e->d_name);
    closedir(d);
    return names;
}

// `directory` with `added` (names) of the view in the place of what it had under these names.
std::string cover(const std::string& view, const std::string& directory, std::initializer_list<const char*> added) {
    const int before = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (before < 0) return failure(directory);
    const std::string old = "/proc/self/fd/" + std::to_string(before);
    auto names = entries_of(directory);
    std::string error;
    if (mount("tmpfs", directory.c_str(), "tmpfs", MS_NOSUID, "mode=755") != 0) error = failure("tmpfs on " + directory);
    for (const char* name : added) {
        if (!error.empty()) break;
        if (!exists(view + directory + "/" + name)) continue;
        names.erase(name);
        if (!show(view + directory + "/" + name, directory + "/" + name)) error = failure(directory + "/" + name);
    }
    for (const auto& name : names) {
        if (!error.empty()) break;
        // What we may not mount (a file of another's) is not there; nothing of ours depends on it.
        (void)show(old + "/" + name, directory + "/" + name);
    }
    close(before);
    return error;
}

}  // namespace

std::string enter_view_namespace(const std::string& view) {
    if (!exists(view + "/sys/class/infiniband")) return "the daemon keeps no view at " + view;
    if (auto error = enter(); !error.empty()) return error;
    if (auto error = cover(view, "/sys/class/misc", {"rdma_cm"}); !error.empty()) return error;
    if (auto error = cover(view, "/sys/class", {"infiniband", "infiniband_verbs", "infiniband_mad"}); !error.empty())
        return error;
    return cover(view, "/dev", {"infiniband"});
}

}  // namespace rocemu::cli
