// SPDX-License-Identifier: BSD-3-Clause
// MbufPool: frame buffers of the engine out of one DPDK mempool. Single-segment mbufs; any thread that DPDK knows
// (LcoreThread) may allocate and free, also frames that come from another MbufPool.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/port.h"

struct rte_mempool;

namespace rocemu::pmd {

class MbufPool final : public engine::FramePool {
  public:
    // Bytes of frame that always fit: path MTU 4096 with every header, and a margin.
    static constexpr uint32_t kDefaultRoom = 4608;

    // `frames` buffers of `room` bytes. nullptr and a reason if the EAL's memory does not suffice.
    static std::unique_ptr<MbufPool> create(const std::string& name, uint32_t frames, uint32_t room,
                                            std::string& error);
    ~MbufPool() override;

    bool alloc(std::span<engine::Frame> frames) override;
    void free(std::span<engine::Frame> frames) override;

    [[nodiscard]] uint32_t room() const { return room_; }
    [[nodiscard]] rte_mempool* handle() const { return pool_; }
    [[nodiscard]] uint32_t in_use() const;  // frames out of the pool (lcore caches count as in the pool)

  private:
    MbufPool(rte_mempool* pool, uint32_t room) : pool_(pool), room_(room) {}
    rte_mempool* pool_;
    uint32_t room_;
};

}  // namespace rocemu::pmd
