// SPDX-License-Identifier: BSD-3-Clause
// Command line of rocemud.
#pragma once

#include <optional>
#include <string>

namespace rocemu::daemon {

struct Options {
    std::string config;  // empty: defaults
    std::string socket;  // empty: of the configuration, else the default path
    int ready_fd = -1;
};

// nullopt: `exit_code` is what to exit with (help was printed, or an error).
std::optional<Options> parse_options(int argc, char** argv, int& exit_code);

}  // namespace rocemu::daemon
