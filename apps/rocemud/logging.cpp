// SPDX-License-Identifier: BSD-3-Clause
// Log: standard error or a file, one line an event. Only the control thread logs: a logger is replaced while none is used.
#include "logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "control/log.h"

namespace rocemu::daemon {

void set_up_logging(const config::DaemonOptions& options) {
    spdlog::sink_ptr sink;
    if (options.log_file.empty())
        sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    else
        sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.log_file);
    auto logger = std::make_shared<spdlog::logger>("rocemud", std::move(sink));
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    logger->set_level(spdlog::level::from_str(options.log_level));
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
}

void reopen_log(const config::DaemonOptions& options) {
    if (options.log_file.empty()) return;
    try {
        set_up_logging(options);
    } catch (const std::exception& e) {
        log::warn("the log goes on where it was: {}", e.what());
    }
}

}  // namespace rocemu::daemon
