// SPDX-License-Identifier: BSD-3-Clause
// See log.h.
#include "control/log.h"

#include <spdlog/spdlog.h>

namespace rocemu::log {

void write(Level level, fmt::string_view format, fmt::format_args args) {
    const auto to = level == Level::Debug  ? spdlog::level::debug
                    : level == Level::Info ? spdlog::level::info
                                           : spdlog::level::warn;
    if (spdlog::should_log(to)) spdlog::log(to, spdlog::string_view_t(fmt::vformat(format, args)));
}

}  // namespace rocemu::log
