// SPDX-License-Identifier: BSD-3-Clause
// Captures: frames of a device into a pcapng file that a tool has opened. One tap per shard fills a ring, this thread
// empties it, a thread of the capture's own writes the file: one that takes nothing loses frames, which are counted; it
// never stops the daemon.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "control/capture_writer.h"
#include "control/session.h"
#include "engine/capture_tap.h"

namespace rocemu::control {

struct Control;

class Captures {
  public:
    explicit Captures(Control& control);
    ~Captures();

    using Outcome = CaptureWriter::Outcome;

    // 0 or errno. snap_length 0: whole frames. The file is emptied only when the capture begins.
    int start(const Session& owner, uint32_t device, UniqueFd file, uint32_t snap_length);
    // `done` when everything is written; false: this session captures nothing on this device.
    bool stop(const Session& owner, uint32_t device, std::function<void(const Outcome&)> done);
    void end_of(const Session& owner);

  private:
    struct Capture {
        uint32_t session = 0, device = 0;
        std::vector<std::unique_ptr<engine::CaptureTap>> taps;  // one a shard
        std::unique_ptr<CaptureWriter> writer;
        bool stopping = false;
    };
    static void drain(Capture& capture, size_t frames_of_a_tap);
    void ended(std::list<Capture>::iterator capture, const std::function<void(const Outcome&)>& done);
    void remove_taps(Capture& capture, std::function<void()> done);

    Control& control_;
    std::list<Capture> captures_;
    UniqueFd timer_;
};

}  // namespace rocemu::control
