// SPDX-License-Identifier: BSD-3-Clause
// DpdkPort: an engine::Port over one RX and one TX queue of any DPDK device. One shard polls it; several shards share
// it through engine::SharedPort. Frames are single-segment; ICRC and IP checksum are made in software (no offloads).
// Traps of the individual drivers: docs/ports.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/port.h"
#include "pmd/mbuf_pool.h"

namespace rocemu::pmd {

class DpdkPort final : public engine::Port {
  public:
    // Frame room the port of `spec` needs in its pool, known before anything is opened.
    static uint32_t room_needed(const std::string& spec);

    // `spec`: a vdev ("net_af_packet,iface=eth1", "net_virtio_user0,path=...", ...) or a PCI address with optional
    // devargs. Missing driver arguments that matter (ring and frame sizes of net_af_packet) are added to suit the
    // interface. `promiscuous`: also take frames to other MAC addresses. nullptr and a reason if it cannot be opened.
    static std::unique_ptr<DpdkPort> open(const std::string& spec, MbufPool& pool, std::string& error,
                                          bool promiscuous = false);
    ~DpdkPort() override;

    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override;
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override;
    [[nodiscard]] int wake_fd() const override;
    void prepare_sleep() override;
    [[nodiscard]] engine::PortInfo info() const override;

    // Kernel interface behind the port (net_af_packet, net_af_xdp: iface=), or empty.
    [[nodiscard]] const std::string& netdev() const;

  private:
    struct Impl;
    explicit DpdkPort(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace rocemu::pmd
