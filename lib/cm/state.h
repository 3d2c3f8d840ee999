// SPDX-License-Identifier: BSD-3-Clause
// State of a connection. Read IBTA volume 1, 12.9.7 (active and passive state diagrams) and 12.11 (SIDR).
#pragma once

#include <cstdint>

namespace rocemu::cm {

enum class State : uint8_t {
    Free,        // slot unused
    Closed,      // over, but the owner has not destroyed it yet
    ReqSent,     // active: waits for REP, MRA or REJ
    MraReqRcvd,  // active: the peer asked for time
    ReqRcvd,     // passive: our consumer must answer
    MraReqSent,  // passive: and we asked the peer for time
    RepSent,     // passive: waits for RTU, data or REJ
    MraRepRcvd,  // passive: the peer asked for time
    RepRcvd,     // active: our consumer must confirm
    MraRepSent,  // active: and we asked the peer for time
    Established,
    DreqSent,  // waits for DREP
    DreqRcvd,  // our consumer must disconnect
    Timewait,
    Answered,     // passive: a final REJ or SIDR_REP was sent and is repeated should the request come again
    SidrReqSent,  // waits for SIDR_REP
    SidrReqRcvd,  // our consumer must reply
};

[[nodiscard]] constexpr const char* name_of(State state) {
    constexpr const char* kNames[] = {"FREE",          "CLOSED",       "REQ_SENT",     "MRA_REQ_RCVD", "REQ_RCVD",
                                      "MRA_REQ_SENT",  "REP_SENT",     "MRA_REP_RCVD", "REP_RCVD",     "MRA_REP_SENT",
                                      "ESTABLISHED",   "DREQ_SENT",    "DREQ_RCVD",    "TIMEWAIT",     "ANSWERED",
                                      "SIDR_REQ_SENT", "SIDR_REQ_RCVD"};
    return kNames[static_cast<uint8_t>(state)];
}

}  // namespace rocemu::cm
