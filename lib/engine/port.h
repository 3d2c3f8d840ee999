// SPDX-License-Identifier: BSD-3-Clause
// Port: all the engine knows of the wire. Implemented by lib/fabric (switch inside the daemon), by pmd/ (any DPDK port)
// and by tests. FramePool: where frame buffers come from; implemented by pmd/ (mempool of mbufs) and by tests (heap).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/time.h"

namespace rocemu::engine {

// One Ethernet frame in one contiguous buffer, by value; ownership moves with it (exactly one owner at any time).
struct Frame {
    std::byte* data = nullptr;  // first byte of the Ethernet header
    uint32_t length = 0;        // bytes, without FCS
    uint32_t room = 0;          // bytes that fit from `data` on
    void* handle = nullptr;     // the pool's own (an mbuf)
};

class FramePool {
  public:
    virtual ~FramePool() = default;
    // All or nothing; false if the pool is exhausted. Frames have length 0 and the full room.
    virtual bool alloc(std::span<Frame> frames) = 0;
    virtual void free(std::span<Frame> frames) = 0;
};

struct PortInfo {
    uint8_t mac[6] = {};
    uint32_t mtu = 0;  // bytes of L3 payload a frame may carry
    bool link_up = true;
    uint32_t speed_mbps = 0;           // 0: unknown
    bool receives_own_frames = false;  // a frame sent to our own MAC comes back by itself
};

// One instance per (port, shard); owner only, except where said.
class Port {
  public:
    virtual ~Port() = default;
    // Up to frames.size() received frames; ownership passes to the caller.
    virtual size_t rx_burst(Instant now, std::span<Frame> frames) = 0;
    // Takes the first n frames (their ownership too) and returns n; the caller keeps the rest and tries again later.
    virtual size_t tx_burst(Instant now, std::span<Frame> frames) = 0;
    // Delayed work (impairments of the fabric): when rx_burst/tx_burst should be called even if nothing happens.
    [[nodiscard]] virtual Instant next_deadline() const { return kNever; }
    // A file descriptor that becomes readable when a frame arrives, or -1: then an idle shard must look now and then.
    [[nodiscard]] virtual int wake_fd() const { return -1; }
    // Around a sleep on wake_fd. prepare_sleep empties it and asks for a wake-up; the shard then calls rx_burst once
    // more and sleeps only if that returned nothing. end_sleep: no wake-up is needed any more.
    virtual void prepare_sleep() {}
    virtual void end_sleep() {}
    // The NIC has another address now than info() said: what is sent there is for itself.
    virtual void set_mac(std::span<const uint8_t, 6>) {}
    [[nodiscard]] virtual PortInfo info() const = 0;
};

}  // namespace rocemu::engine
