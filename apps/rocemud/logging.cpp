// SPDX-License-Identifier: BSD-3-Clause
// Log: standard error or a file, one line an event.
#include "logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace rocemu::daemon {

void set_up_logging(const config::DaemonOptions& options) {
    auto logger = options.log_file.empty() ? spdlog::stderr_logger_mt("rocemud")
                                           : spdlog::basic_logger_mt("rocemud", options.log_file);
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    logger->set_level(spdlog::level::from_str(options.log_level));
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
}

}  // namespace rocemu::daemon
