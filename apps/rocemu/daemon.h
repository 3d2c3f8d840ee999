// SPDX-License-Identifier: BSD-3-Clause
// Talking to the daemon as a tool, with failures as one clear line.
#pragma once

#include <string>

#include "provider/connection.h"

namespace rocemu::cli {

// The socket that is meant by --socket (may be empty), as an absolute path.
std::string socket_path(const std::string& option);

// Connects and says hello: as a tool, or as an application would (`features`). False after a line on stderr.
bool greet(provider::Connection& connection, const std::string& path, bool as_tool);

// A whole document of the daemon; false after a line on stderr.
bool read_document(provider::Connection& connection, uint32_t document, std::string& text);

}  // namespace rocemu::cli
