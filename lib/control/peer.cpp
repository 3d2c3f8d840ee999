// SPDX-License-Identifier: BSD-3-Clause
// Peer: SO_PEERCRED, SO_PEERPIDFD (Linux 6.5) or pidfd_open (5.3).
#include "control/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <fstream>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace rocemu::control {

bool Peer::of(int socket, Peer& out) {
    ucred cred{};
    socklen_t size = sizeof cred;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0) return false;
    out.pid = cred.pid;
    out.uid = cred.uid;
    out.gid = cred.gid;
    int pidfd = -1;
    size = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0 && cred.pid > 0)
        pidfd = static_cast<int>(syscall(SYS_pidfd_open, cred.pid, 0));
    out.pidfd = UniqueFd(pidfd);
    if (cred.pid > 0) {
        std::ifstream comm("/proc/" + std::to_string(cred.pid) + "/comm");
        std::getline(comm, out.command);
        for (char& c : out.command)
            if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
    }
    return true;
}

}  // namespace rocemu::control
