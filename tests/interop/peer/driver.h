// SPDX-License-Identifier: BSD-3-Clause
// The driver reads cases, plays one side of each, judges, and writes one line of results for each; the server plays
// the other side of what the driver tells it. Both play in lanes: processes of their own, each with its own device and
// its own connection to the other side's, that take the next case when they are free.
#pragma once

#include <cstdint>
#include <string>

#include "channel.h"
#include "device.h"

namespace interop {

struct DriverOptions {
    std::string device, address, cases, results, wire;
    uint16_t port = 0;
    double budget = 0;  // seconds after which no further case begins; 0: none
    unsigned lanes = 1;
    std::string build;  // of rocemu: stands in each line of results
    bool append = false;
};

// Results: a line for each case, in the order in which they ended. Both return the exit code of the program.
int drive(const DriverOptions& options);
int serve(const std::string& device, uint16_t port, unsigned lanes);

}  // namespace interop
