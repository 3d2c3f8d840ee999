// SPDX-License-Identifier: BSD-3-Clause
// Command line of rocemud: see options.h.
#include "options.h"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "config/config.h"

namespace rocemu::daemon {

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    CLI::App app{"rocemud: a software RoCE NIC", "rocemud"};
    Options options;
    bool help_config = false;
    // The word of an unset variable: not the same as no option.
    const auto not_empty = [](const std::string& text) { return std::string(text.empty() ? "must not be empty" : ""); };
    app.add_option("--config", options.config, "Configuration (TOML)")->type_name("FILE")->check(not_empty);
    app.add_option("--socket", options.socket, "Control socket, instead of the configured one")
        ->type_name("PATH")
        ->check(not_empty);
    app.add_option("--ready-fd", options.ready_fd,
                   "Writes a line to this descriptor when programs can attach, and closes it")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--help-config", help_config, "Prints every option of the configuration");
    app.set_version_flag("--version", std::string("rocemud ") + ROCEMU_VERSION);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        exit_code = e.get_exit_code() == 0 ? app.exit(e) : 1;
        if (exit_code != 0) std::cerr << "rocemud: " << e.what() << " (rocemud --help says what there is)\n";
        return std::nullopt;
    }
    if (options.ready_fd >= 0 && fcntl(options.ready_fd, F_GETFD) < 0) {
        std::cerr << "rocemud: --ready-fd " << options.ready_fd << ": not an open descriptor\n";
        exit_code = 1;
        return std::nullopt;
    }
    if (!help_config) return options;
    std::cout << config::help_text();
    exit_code = 0;
    return std::nullopt;
}

}  // namespace rocemu::daemon
