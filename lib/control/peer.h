// SPDX-License-Identifier: BSD-3-Clause
// Peer: who is at the other end of a connection, as the kernel says it. The pidfd becomes readable when the process is
// gone, whoever else still holds its socket: then the session ends and its process number is not used any more.
#pragma once

#include <sys/types.h>

#include <string>

#include "control/unique_fd.h"

namespace rocemu::control {

struct Peer {
    pid_t pid = 0;  // 0: not visible in our pid namespace
    uid_t uid = 0;
    gid_t gid = 0;
    std::string command;  // comm of the process, for status and log
    UniqueFd pidfd;       // empty where the kernel has none

    // False: the socket has no credentials.
    static bool of(int socket, Peer& out);
};

}  // namespace rocemu::control
