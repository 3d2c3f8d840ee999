// SPDX-License-Identifier: BSD-3-Clause
// The daemon's log as spdlog's default logger has it. spdlog's own calls bring all of fmt's formatting code into every
// file that makes one (3 s of a sanitizer build each); these pass the arguments to compiled code. Control thread and
// start-up only, never the data path.
#pragma once

#include <fmt/core.h>

namespace rocemu::log {

enum class Level { Debug, Info, Warn };

void write(Level level, fmt::string_view format, fmt::format_args args);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Debug, format, fmt::make_format_args(args...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Info, format, fmt::make_format_args(args...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    write(Level::Warn, format, fmt::make_format_args(args...));
}

}  // namespace rocemu::log
