// SPDX-License-Identifier: BSD-3-Clause
// CaptureWriter: the file of a capture, and the thread that writes it. A file that takes nothing (a slow disk, a frozen
// file system, a full pipe, a terminal) holds up this thread alone: what finds no room in memory then is lost, and
// counted. After an error of the file nothing more is written to it: what is there stays readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/unique_fd.h"

namespace rocemu::control {

class CaptureWriter {
  public:
    // Frames that are whole in the file, those that are not, and the file's error (errno).
    struct Outcome {
        uint64_t frames = 0, missed = 0;
        int error = 0;
    };

    // Throws std::system_error without a thread or a descriptor.
    CaptureWriter(UniqueFd file, bool regular, std::vector<std::byte> header);
    ~CaptureWriter();  // waits a second for what is not written; a thread that still is held up then is left alone
    CaptureWriter(const CaptureWriter&) = delete;
    CaptureWriter& operator=(const CaptureWriter&) = delete;

    // A frame's block.
    void add(std::span<const std::byte> block);
    // It was the last: ended_fd() becomes readable when everything is written, or cannot be.
    void finish();
    [[nodiscard]] int ended_fd() const;
    [[nodiscard]] Outcome outcome() const;

  private:
    struct State;
    static void run(const std::shared_ptr<State>& state);
    std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace rocemu::control
