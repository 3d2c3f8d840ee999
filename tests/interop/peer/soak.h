// SPDX-License-Identifier: BSD-3-Clause
// The soak: many connections, each with one message a second in each direction, over a wire that loses packets; every
// byte, every completion and its order checked on both sides (soak_connection.h).
#pragma once

#include <string>

#include "channel.h"
#include "device.h"

namespace interop {

struct SoakOptions {
    uint32_t connections = 1000;
    uint32_t seconds = 10;
    uint32_t loss_percent = 1;  // if there is a wire to tell
    std::string wire;
};

constexpr const char* kSoakWord = "soak";

// Prints figures; throws Failure with what went wrong on either side.
void soak_drive(Channel& channel, Device& device, const SoakOptions& options);
// The server's side of what the driver asked for with this line.
void soak_serve(Channel& channel, Device& device, const std::string& line);

}  // namespace interop
