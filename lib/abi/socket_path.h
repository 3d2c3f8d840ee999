// SPDX-License-Identifier: BSD-3-Clause
// Where the daemon listens when nobody says otherwise: one rule for daemon, provider and command line.
// A path that is given (option, ROCEMU_SOCKET) wins; then, for root, /run/rocemu; for others the user's runtime
// directory; without one, a directory in /tmp that carries the user's number.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

namespace rocemu::abi {

inline constexpr const char* kSocketVariable = "ROCEMU_SOCKET";

// In /tmp anybody may make it, before we do.
inline std::string public_socket_directory() {
    return "/tmp/rocemu-" + std::to_string(geteuid());
}

// Whether a socket there is the daemon's only if it is ours, or root's.
inline bool is_public_socket(std::string_view path) {
    return path.starts_with(public_socket_directory() + "/");
}

// The directory of the default socket, without a slash at its end. The daemon makes it with mode 0700.
inline std::string default_socket_directory() {
    if (geteuid() == 0) return "/run/rocemu";
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && runtime[0] == '/') return std::string(runtime) + "/rocemu";
    return public_socket_directory();
}

inline std::string default_socket_path() {
    const char* chosen = std::getenv(kSocketVariable);
    if (chosen != nullptr && chosen[0] != '\0') return chosen;
    return default_socket_directory() + "/rocemud.sock";
}

// Where the daemon of a socket keeps the files of its devices as programs read them: below it sys/class/infiniband...,
// dev/infiniband (lib/control/sysfs_view.h).
inline std::string view_directory(const std::string& socket) {
    return socket + ".view";
}

}  // namespace rocemu::abi
