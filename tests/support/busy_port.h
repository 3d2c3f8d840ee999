// SPDX-License-Identifier: BSD-3-Clause
// BusyPort: a port in front of whose frames there are others, so many that a shard does not get to the end of them. Wrap a
// NIC's port in it with EngineWorld::wrap_port.
#pragma once

#include <cstring>
#include <stdexcept>

#include "engine/port.h"
#include "support/heap_pool.h"

namespace rocemu::test {

// Frames that are of no use to anybody, in front of those of the real port.
class BusyPort final : public engine::Port {
  public:
    BusyPort(engine::Port& real, HeapPool& pool) : real_(real), pool_(pool) {}
    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override {
        const size_t n = std::min<size_t>(frames.size(), useless);
        if (n == 0) return real_.rx_burst(now, frames);
        useless -= static_cast<uint32_t>(n);
        if (!pool_.alloc(frames.first(n))) throw std::runtime_error("no frames");
        for (auto& f : frames.first(n)) std::memset(f.data, 0, f.length = 64);
        return n;
    }
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override {
        const size_t n = real_.tx_burst(now, frames);
        sent += n;
        return n;
    }
    [[nodiscard]] Instant next_deadline() const override { return real_.next_deadline(); }
    [[nodiscard]] engine::PortInfo info() const override {
        engine::PortInfo info = real_.info();
        info.receives_own_frames &= receives_own_frames;
        return info;
    }
    bool receives_own_frames = true;  // as far as the real port does
    uint32_t useless = 0;  // of them still to come
    uint64_t sent = 0;     // frames that the real port took

  private:
    engine::Port& real_;
    HeapPool& pool_;
};

}  // namespace rocemu::test
