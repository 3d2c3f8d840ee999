// SPDX-License-Identifier: BSD-3-Clause
// Counters of one CmManager: why a MAD had no effect, and what was repeated. Plain numbers, one owner thread.
#pragma once

#include <cstdint>

namespace rocemu::cm {

struct Counters {
    uint64_t rx_mads = 0, tx_mads = 0;
    uint64_t rx_duplicates = 0;   // messages we had already acted upon
    uint64_t tx_retries = 0;      // repeated because of a timeout
    uint64_t tx_repeated = 0;     // repeated because the peer repeated itself
    uint64_t timeouts = 0;        // gave up
    uint64_t drop_malformed = 0;  // version, class, method, source QP
    uint64_t drop_unknown_attribute = 0;
    uint64_t drop_unknown_id = 0;  // no connection has this pair of ids
    uint64_t drop_wrong_peer = 0;  // right ids, but from another address, port or QP
    uint64_t drop_wrong_state = 0;
    uint64_t drop_backlog = 0;  // REQ or SIDR_REQ to a full listener: the peer will try again
    uint64_t drop_no_event_room = 0;
    uint64_t drop_transmit_full = 0;
    uint64_t rejected_no_listener = 0, rejected_stale = 0, rejected_no_resources = 0;
    uint64_t rejected_wrong_transport = 0;  // there is a listener, for another kind of QP
    uint64_t evicted = 0;                   // lingering connections that made room for new ones
};

}  // namespace rocemu::cm
