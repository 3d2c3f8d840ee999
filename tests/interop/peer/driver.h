// SPDX-License-Identifier: BSD-3-Clause
// The driver reads cases, plays one side of each, judges, and writes one line of results for each; the server plays
// the other side of what the driver tells it.
#pragma once

#include <string>

#include "channel.h"
#include "device.h"

namespace interop {

struct DriverOptions {
    std::string cases, results, wire;
    double budget = 0;  // seconds after which no further case begins; 0: none
};

// Returns the number of cases that failed.
int drive(Channel& channel, Device& device, const DriverOptions& options);
void serve(Channel& channel, Device& device);

}  // namespace interop
