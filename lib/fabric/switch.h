// SPDX-License-Identifier: BSD-3-Clause
// Switch: joins the emulated NICs of one daemon. Knows the MAC address of every NIC; group addresses and unknown ones
// are flooded. Within a NIC a RoCE frame goes to the shard that owns its destination QP (low 8 bits of the QPN),
// anything else to shard 0. A frame to the sender's own MAC address comes back to it.
// Made complete before the shards run; afterwards only set_impairments may be called, by any one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "engine/port.h"
#include "fabric/fabric_port.h"
#include "fabric/impairments.h"

namespace rocemu::fabric {

class Switch {
  public:
    explicit Switch(uint32_t shards = 1);
    ~Switch();  // after all shards have stopped; frames still in the rings go back to their pools

    // Adds a NIC and returns its number. `pool`: for copies (flooding, duplicates); used by all its shards.
    uint32_t add_nic(const std::array<uint8_t, 6>& mac, uint32_t mtu, engine::FramePool& pool);
    // This shard's instance. Lives as long as the switch. Precondition: add_nic of all NICs was called before any
    // traffic.
    FabricPort& port(uint32_t nic, uint32_t shard);

    // For the frames NIC `nic` sends, at once for the next burst of each shard. Any one thread.
    void set_impairments(uint32_t nic, const Impairments& impairments);
    [[nodiscard]] Impairments impairments(uint32_t nic) const;  // same thread as set_impairments

  private:
    friend class FabricPort;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::fabric
