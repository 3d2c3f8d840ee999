// SPDX-License-Identifier: BSD-3-Clause
// Server: the control thread: accepts connections, makes sessions of them, keeps the clock of everything in Control.
#pragma once

#include <memory>

#include "control/control.h"
#include "control/listener.h"
#include "control/sysfs_view.h"

namespace rocemu::control {

class Server {
  public:
    Server(const config::Config& config, EventLoop& loop, Listener& listener, std::vector<engine::Shard*> shards,
           std::vector<std::unique_ptr<Device>> devices, fabric::Switch* fabric);
    ~Server();

    // Until loop.stop(); the shards must run.
    void run() { loop_.run(); }
    // Ends all sessions and waits, at most `limit`, until the shards have forgotten them.
    void shut_down(Duration limit);
    Control& control() { return control_; }

  private:
    void accept_all();
    void accept_one(UniqueFd fd);

    EventLoop& loop_;
    Listener& listener_;
    Control control_;
    SysfsView view_;
    UniqueFd spare_;  // given up for a moment when descriptors run out, so that a connection can be refused
};

}  // namespace rocemu::control
