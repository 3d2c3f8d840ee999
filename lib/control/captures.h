// SPDX-License-Identifier: BSD-3-Clause
// Captures: frames of a device into a pcapng file that a tool has opened. One tap per shard fills a ring, this thread
// empties it. A file that takes nothing (a full pipe) loses frames, which are counted; it never stops the daemon. After
// an error of the file nothing more is written to it: what is there stays readable, the rest is counted as missed.
#pragma once

#include <deque>
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

    // What became of one: frames that are whole in the file, those that are not, and the file's error.
    struct Outcome {
        uint64_t frames = 0, missed = 0;
        int error = 0;  // errno
    };

    // 0 or errno. snap_length 0: whole frames. The file is emptied only when the capture begins.
    int start(const Session& owner, uint32_t device, UniqueFd file, uint32_t snap_length);
    // `done` when everything is written; false: this session captures nothing on this device.
    bool stop(const Session& owner, uint32_t device, std::function<void(const Outcome&)> done);
    void end_of(const Session& owner);

  private:
    struct Capture {
        uint32_t session = 0, device = 0;
        std::vector<std::unique_ptr<engine::CaptureTap>> taps;  // one a shard
        UniqueFd file;
        bool pipe = false;
        bool stopping = false;
        std::vector<std::byte> buffer;  // made, not written yet
        std::deque<uint64_t> ends;      // of its frames, as positions in the file
        uint64_t written = 0, whole = 0;  // bytes of the file; up to the end of its last whole frame
        uint64_t frames = 0, missed = 0;  // in the file; lost before they were made
        int error = 0;                    // of the file: nothing more is written
    };
    void drain_all();
    void drain(Capture& capture);
    static void write(Capture& capture);
    static Outcome outcome_of(const Capture& capture);
    void remove_taps(Capture& capture, std::function<void()> done);

    Control& control_;
    std::list<Capture> captures_;
    UniqueFd timer_;
};

}  // namespace rocemu::control
