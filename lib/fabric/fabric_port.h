// SPDX-License-Identifier: BSD-3-Clause
// FabricPort: one shard's instance of an emulated NIC's port on the embedded switch; an engine::Port like any other.
// Frames travel by pointer between instances over bounded single-producer rings (one per sending shard), so a full ring
// is back-pressure: nothing is lost but what the impairments of the sending link lose on purpose.
#pragma once

#include <memory>

#include "engine/port.h"
#include "fabric/impairments.h"
#include "stats/counters.h"

namespace rocemu::fabric {

class Switch;

class FabricPort final : public engine::Port {
  public:
    ~FabricPort() override;

    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override;
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override;
    [[nodiscard]] Instant next_deadline() const override;
    [[nodiscard]] int wake_fd() const override;
    void prepare_sleep() override;
    void end_sleep() override;
    [[nodiscard]] engine::PortInfo info() const override;

    // Any thread. The fault_* counters of this instance, to be added to those of its device.
    [[nodiscard]] const stats::CounterBlock& counters() const;

  private:
    friend class Switch;
    struct Impl;
    explicit FabricPort(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::fabric
