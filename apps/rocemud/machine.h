// SPDX-License-Identifier: BSD-3-Clause
// Machine: everything that runs on lcores, built from the configuration: EAL, frame pool, switch, ports, shards and
// their threads. Owns them in the order in which they must go.
#pragma once

#include <memory>
#include <vector>

#include "config/config.h"
#include "control/device.h"
#include "engine/shard.h"
#include "engine/shared_port.h"
#include "fabric/switch.h"
#include "payload/atomic_locks.h"
#include "pmd/dpdk_port.h"
#include "pmd/eal.h"
#include "pmd/lcore_thread.h"
#include "pmd/mbuf_pool.h"

namespace rocemu::daemon {

class Machine {
  public:
    // Throws std::runtime_error with one line.
    explicit Machine(const config::Config& config);
    ~Machine();

    void start();  // the shards' threads
    void stop();   // joins them

    [[nodiscard]] std::vector<engine::Shard*> shards() const;
    [[nodiscard]] std::vector<std::unique_ptr<control::Device>> make_devices() const;
    [[nodiscard]] fabric::Switch* fabric() { return switch_.get(); }

  private:
    void start_eal();
    void make_pool();
    void open_fabric(const config::DeviceOptions& options, control::DeviceInit& init);
    void open_dpdk(const config::DeviceOptions& options, control::DeviceInit& init);
    void make_shards();

    struct RealPort {
        std::unique_ptr<pmd::DpdkPort> port;
        std::unique_ptr<engine::SharedPort> shared;
    };
    const config::Config& config_;
    uint32_t shard_count_;
    std::unique_ptr<pmd::Eal> eal_;
    std::unique_ptr<pmd::MbufPool> pool_;
    std::unique_ptr<fabric::Switch> switch_;
    std::vector<RealPort> real_;              // by device; empty entries for those on the fabric
    std::vector<control::DeviceInit> inits_;  // by device
    payload::AtomicLocks atomic_locks_;
    std::vector<std::unique_ptr<engine::Shard>> shards_;
    std::vector<std::unique_ptr<pmd::LcoreThread>> threads_;
};

}  // namespace rocemu::daemon
