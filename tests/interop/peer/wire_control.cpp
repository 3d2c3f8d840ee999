// SPDX-License-Identifier: BSD-3-Clause
// See wire_control.h.
#include "wire_control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>

#include "channel.h"

namespace interop {

WireControl::WireControl(const std::string& socket_path) {
    if (socket_path.empty()) return;
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::snprintf(to.sun_path, sizeof to.sun_path, "%s", socket_path.c_str());
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd_ < 0 || connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
        throw Failure("no wire at " + socket_path);
}

WireControl::~WireControl() {
    if (fd_ >= 0) close(fd_);
}

void WireControl::begin(const std::string& name, unsigned loss_percent, uint32_t mine, uint32_t theirs,
                        unsigned recorded) {
    // The seed follows from the name: a case alone loses what it loses among others.
    unsigned seed = 5381;
    for (const char c : name) seed = seed * 33 + static_cast<unsigned char>(c);
    tell("begin " + name + " " + std::to_string(loss_percent * 10000) + " " + std::to_string(seed) + " " +
         std::to_string(recorded) + " " + std::to_string(theirs) + " " + std::to_string(mine));
}

void WireControl::end(bool keep) {
    tell(keep ? "end keep" : "end drop");
}

void WireControl::tell(const std::string& line) {
    if (fd_ < 0) return;
    char answer[16];
    if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) < 0 || recv(fd_, answer, sizeof answer, 0) <= 0)
        throw Failure("the wire is gone");
}

}  // namespace interop
