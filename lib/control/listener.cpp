// SPDX-License-Identifier: BSD-3-Clause
// Listener: see listener.h. The lock, not the socket, decides who is the daemon: a crashed daemon's lock is free.
#include "control/listener.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "abi/socket_path.h"

namespace rocemu::control {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
    throw std::runtime_error(path + ": " + what);
}
[[noreturn]] void fail_errno(const std::string& path, const std::string& what) {
    fail(path, what + ": " + std::strerror(errno));
}

// A directory that has to be made is open to others only if the socket is. The default one may lie in /tmp, where
// somebody else could have made it first, to put a socket of his there.
void make_directory(const std::string& path, int64_t socket_mode) {
    const auto parent = std::filesystem::path(path).parent_path();
    struct stat info {};
    if (parent.empty()) return;
    if (lstat(parent.c_str(), &info) == 0) {
        const bool ours = info.st_uid == geteuid() || info.st_uid == 0;
        if (parent != abi::default_socket_directory()) return;
        if (!ours || !S_ISDIR(info.st_mode) || (info.st_mode & 022))
            fail(parent.string(), "belongs to somebody else, or others may write there");
        // Closed by an earlier run, whose socket was closed too.
        if ((socket_mode & 077) && info.st_uid == geteuid()) ::chmod(parent.c_str(), 0755);
        return;
    }
    const mode_t before = umask((socket_mode & 077) ? 022 : 077);
    std::error_code error;
    std::filesystem::create_directories(parent, error);
    umask(before);
    if (error) fail(parent.string(), error.message());
}

UniqueFd take_lock(const std::string& path) {
    UniqueFd lock(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) fail_errno(path + ".lock", "cannot be opened");
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) fail(path, "another rocemud is already running on this socket");
    return lock;
}

// A name in digits; none: it is a name. The largest number means "unchanged" to chown().
std::optional<uint32_t> number_of(const std::string& key, const std::string& name) {
    if (name.find_first_not_of("0123456789") != name.npos) return std::nullopt;
    uint32_t id = 0;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), id);
    if (result.ec != std::errc{} || id == UINT32_MAX) fail(key, "'" + name + "' is out of range");
    return id;
}
uid_t user_of(const std::string& name) {
    if (name.empty()) return static_cast<uid_t>(-1);
    if (const auto id = number_of("daemon.socket_owner", name)) return *id;
    const passwd* entry = getpwnam(name.c_str());
    if (!entry) fail("daemon.socket_owner", "there is no user '" + name + "'");
    return entry->pw_uid;
}
gid_t group_of(const std::string& name) {
    if (name.empty()) return static_cast<gid_t>(-1);
    if (const auto id = number_of("daemon.socket_group", name)) return *id;
    const group* entry = getgrnam(name.c_str());
    if (!entry) fail("daemon.socket_group", "there is no group '" + name + "'");
    return entry->gr_gid;
}

}  // namespace

Listener::Listener(const std::string& path, const config::DaemonOptions& options) : path_(path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) fail(path, "is too long for a socket");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const uid_t owner = user_of(options.socket_owner);
    const gid_t group = group_of(options.socket_group);
    make_directory(path, options.socket_mode);
    lock_ = take_lock(path);

    struct stat info {};
    if (lstat(path.c_str(), &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) fail(path, "exists and is no socket");
        ::unlink(path.c_str());  // of a daemon that is dead: we hold its lock
    }
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) fail_errno(path, "socket");
    const mode_t before = umask(0177);  // nobody else connects before the permissions are right
    const int bound = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    umask(before);
    if (bound != 0) fail_errno(path, "cannot be bound");
    if ((owner != static_cast<uid_t>(-1) || group != static_cast<gid_t>(-1)) &&
        ::lchown(path.c_str(), owner, group) != 0)
        fail_errno(path, "owner or group cannot be set");
    if (::chmod(path.c_str(), static_cast<mode_t>(options.socket_mode)) != 0) fail_errno(path, "mode cannot be set");
    if (::listen(socket_.get(), 128) != 0) fail_errno(path, "listen");
}

// The lock file stays: removing it would let two daemons hold two files of one name.
Listener::~Listener() {
    if (socket_) ::unlink(path_.c_str());
}

}  // namespace rocemu::control
