// SPDX-License-Identifier: BSD-3-Clause
// Captures: frames of a device into a pcapng file that a tool has opened. One tap per shard fills a ring, this thread
// empties it. A file that takes nothing (a full pipe) loses frames, which are counted; it never stops the daemon.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "control/session.h"
#include "engine/capture_tap.h"

namespace rocemu::control {

struct Control;

class Captures {
  public:
    explicit Captures(Control& control);
    ~Captures();

    // 0 or errno. snap_length 0: whole frames.
    int start(const Session& owner, uint32_t device, UniqueFd file, uint32_t snap_length);
    // `done(frames, missed)` when everything is written; false: this session captures nothing on this device.
    bool stop(const Session& owner, uint32_t device, std::function<void(uint64_t, uint64_t)> done);
    void end_of(const Session& owner);

  private:
    struct Capture {
        uint32_t session = 0, device = 0;
        std::vector<std::unique_ptr<engine::CaptureTap>> taps;  // one a shard
        UniqueFd file;
        bool pipe = false;
        bool stopping = false;
        std::vector<std::byte> buffer;  // made, not written yet
        uint64_t frames = 0, missed = 0;
    };
    void drain_all();
    void drain(Capture& capture);
    void write(Capture& capture);
    void remove_taps(Capture& capture, std::function<void()> done);

    Control& control_;
    std::list<Capture> captures_;
    UniqueFd timer_;
};

}  // namespace rocemu::control
