// SPDX-License-Identifier: BSD-3-Clause
// QpPair: two connected endpoints, a link in each direction, and virtual time that jumps to the next thing that
// happens.
#pragma once

#include <functional>
#include <optional>

#include "tests/sim/endpoint.h"

namespace rocemu::sim {

struct PairOptions {
    uint64_t seed = 1;
    uint8_t path_mtu = 3;  // enum ibv_mtu: 1024
    uint64_t memory_bytes = 4 << 20;
    uint32_t psn_a = 0x100, psn_b = 0x200;  // what A and B begin to send with
    transport::QpConfig config;             // of both; qpn and pd are set here
    std::optional<QpType> type_b;           // of B, if it is another (XRC)
    transport::QpAttr attr;                 // of both; connection fields are set here
    PairOptions();
};

class QpPair {
  public:
    explicit QpPair(const PairOptions& options = {});

    void set_faults(const LinkFaults& f) { ab.faults = ba.faults = f; }
    // Runs until `done`, until nothing is left to happen, or until the virtual time limit. True if `done` holds.
    bool run(const std::function<bool()>& done, Duration limit = 600 * kSecond);
    // Until nothing happens any more.
    void settle(Duration limit = 600 * kSecond);
    [[nodiscard]] bool healthy() const { return a.violations.empty() && b.violations.empty(); }

    Instant now{1000};
    Endpoint a, b;
    Link ab, ba;
    uint64_t steps = 0;

  private:
    bool step(Instant limit);
};

}  // namespace rocemu::sim
