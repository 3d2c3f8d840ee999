// SPDX-License-Identifier: BSD-3-Clause
// One case, played by this process as requester or responder while the process at the other end of the channel plays
// the other part. Both get the same pair of reports.
#pragma once

#include "case.h"
#include "channel.h"
#include "device.h"
#include "wire_control.h"

namespace interop {

struct Report {
    uint8_t unsupported = 0;
    char outcome[400] = {};
    char wrong[300] = {};  // what is wrong beside the outcome; empty: nothing
};

struct Reports {
    Report requester, responder;
};

// The wire, if it is this side's to tell, is told which queue pairs the case has.
Reports run_case(Channel& channel, Device& device, const Case& c, bool requester, WireControl* wire);

}  // namespace interop
