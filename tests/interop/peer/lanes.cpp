// SPDX-License-Identifier: BSD-3-Clause
// See lanes.h.
#include "lanes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "channel.h"

namespace interop {

Lanes::Lanes() {
    int ends[2];
    if (pipe(ends) != 0) throw Failure("no pipe");
    read_ = ends[0];
    write_ = ends[1];
    std::signal(SIGPIPE, SIG_IGN);  // all lanes ended early
}

Lanes::~Lanes() {
    if (read_ >= 0) close(read_);
    if (write_ >= 0) close(write_);
}

void Lanes::add(const std::function<int(const Next&)>& play) {
    const pid_t pid = fork();
    if (pid < 0) throw Failure("no process for a lane");
    if (pid > 0) {
        lanes_.push_back(pid);
        return;
    }
    close(write_);
    int rc = 2;
    try {
        // Four bytes are never torn: they fit into the pipe's unit (PIPE_BUF).
        rc = play([this](uint32_t& number) { return read(read_, &number, sizeof number) == sizeof number; });
    } catch (const Failure& e) {
        std::fprintf(stderr, "interop_peer: %s\n", e.what());
    }
    std::fflush(nullptr);
    _exit(rc);
}

int Lanes::deal(uint32_t count) {
    close(read_);
    read_ = -1;
    for (uint32_t i = 0; i < count; ++i)
        if (write(write_, &i, sizeof i) != sizeof i) break;
    close(write_);
    write_ = -1;
    int worst = 0;
    for (const pid_t pid : lanes_) {
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) status = 2 << 8;
        worst = std::max(worst, WEXITSTATUS(status));
    }
    return worst;
}

}  // namespace interop
