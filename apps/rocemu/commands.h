// SPDX-License-Identifier: BSD-3-Clause
// The subcommands of `rocemu`. Each adds itself to the command line; main runs the one that was chosen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace rocemu::cli {

// What the chosen subcommand does; returns the exit code.
using Action = std::function<int()>;

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_counters(CLI::App& app, Action& chosen);
void add_capture(CLI::App& app, Action& chosen);
void add_impair(CLI::App& app, Action& chosen);
void add_icrc_check(CLI::App& app, Action& chosen);

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitNoDaemon = 2;  // no daemon, another version, or it refused
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

// `rocemu: TEXT` as one line on stderr; returns `code`.
int complain(int code, const std::string& text);

// --socket, the same for all that talk to the daemon.
void add_socket_option(CLI::App& command, std::string& path);

}  // namespace rocemu::cli
