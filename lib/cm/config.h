// SPDX-License-Identifier: BSD-3-Clause
// What a CmManager is made with: its capacities, which it allocates once, and the constants of its messages.
// The protocol defaults are those of the recorded Linux peer.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rocemu::cm {

struct Config {
    uint32_t max_owners = 256;
    uint32_t max_connections = 4096;    // up to 2^20; half-open, established and lingering ones together
    uint32_t max_bindings = 1024;       // up to 2^16
    uint32_t event_capacity = 256;      // at least 4; the caller drains with poll_event after each call
    uint32_t transmit_capacity = 1024;  // what does not fit counts as lost on the wire

    uint64_t seed = 1;                // ids and ephemeral ports follow from it; give entropy outside of tests
    uint32_t transaction_prefix = 2;  // upper half of the transaction ids of our requests

    uint8_t response_timeout = 20;     // 4.096 us * 2^n that either side has for an answer: 4.3 s
    uint8_t max_cm_retries = 15;       // retransmissions, so 16 transmissions
    uint8_t mra_service_timeout = 24;  // what we ask for when our consumer is slow: 69 s
    uint8_t ack_delay = 15;            // local CA ACK delay
    uint8_t packet_rate = 0;           // REQ: 0 is the rate of the port
    uint16_t first_ephemeral_port = 32768;
    uint16_t last_ephemeral_port = 60999;
};

struct OwnerLimits {
    uint32_t max_connections = 1024;
    uint32_t max_bindings = 256;
    bool privileged_ports = false;  // may bind ports below 1024
};

}  // namespace rocemu::cm
