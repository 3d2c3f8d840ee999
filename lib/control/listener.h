// SPDX-License-Identifier: BSD-3-Clause
// Listener: the daemon's socket in the file system: its directory, a lock beside it that keeps a second daemon away, a
// stale socket of a dead one removed, owner and permissions.
#pragma once

#include <string>

#include "config/config.h"
#include "control/unique_fd.h"

namespace rocemu::control {

class Listener {
  public:
    // Throws std::runtime_error with one line that names the path.
    Listener(const std::string& path, const config::DaemonOptions& options);
    ~Listener();  // removes the socket
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    [[nodiscard]] int fd() const { return socket_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    UniqueFd lock_, socket_;
};

}  // namespace rocemu::control
