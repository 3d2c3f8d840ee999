// SPDX-License-Identifier: BSD-3-Clause
// HeapPool: an engine::FramePool without DPDK. Counts what is out, so that a test can prove that no frame was lost.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "engine/port.h"

namespace rocemu::test {

class HeapPool final : public engine::FramePool {
  public:
    explicit HeapPool(size_t frames = 8192, uint32_t room = 4608) : room_(room) { add(frames); }
    void add(size_t frames) {
        for (size_t i = 0; i < frames; ++i) {
            buffers_.push_back(std::make_unique<std::byte[]>(room_));
            free_.push_back(buffers_.back().get());
        }
    }
    bool alloc(std::span<engine::Frame> frames) override {
        if (free_.size() < frames.size()) return false;
        for (auto& f : frames) {
            f = {free_.back(), 0, room_, free_.back()};
            free_.pop_back();
        }
        return true;
    }
    void free(std::span<engine::Frame> frames) override {
        for (auto& f : frames) free_.push_back(static_cast<std::byte*>(f.handle));
    }
    // What still reads a frame that it has freed reads this.
    void scribble() {
        for (std::byte* frame : free_) std::memset(frame, 0xEE, room_);
    }
    [[nodiscard]] size_t out() const { return buffers_.size() - free_.size(); }

  private:
    uint32_t room_;
    std::vector<std::unique_ptr<std::byte[]>> buffers_;
    std::vector<std::byte*> free_;
};

}  // namespace rocemu::test
