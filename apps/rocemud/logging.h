// SPDX-License-Identifier: BSD-3-Clause
// Where the log goes. Nothing on the data path logs.
#pragma once

#include "config/config.h"

namespace rocemu::daemon {

// Throws spdlog::spdlog_ex if the file cannot be opened.
void set_up_logging(const config::DaemonOptions& options);

// Opens the log file again by its name: it may have been renamed. One that cannot be opened changes nothing.
void reopen_log(const config::DaemonOptions& options);

}  // namespace rocemu::daemon
