// SPDX-License-Identifier: BSD-3-Clause
// rocemu: the command line. `rocemu run` attaches a program to the daemon, the others look at the daemon or at captures.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "commands.h"

namespace rocemu::cli {

int complain(int code, const std::string& text) {
    std::fprintf(stderr, "rocemu: %s\n", text.c_str());
    return code;
}

void add_socket_option(CLI::App& command, std::string& path) {
    command.add_option("--socket", path, "Socket of the daemon (default: $ROCEMU_SOCKET, or the user's own)");
}

}  // namespace rocemu::cli

int main(int argc, char** argv) {
    using namespace rocemu::cli;
    CLI::App app{"rocemu: a software RoCE NIC. Attaches programs to its daemon and looks into it."};
    app.name("rocemu");
    app.set_version_flag("--version", ROCEMU_VERSION);
    app.require_subcommand(1);
    Action chosen;
    add_run(app, chosen);
    add_status(app, chosen);
    add_counters(app, chosen);
    add_capture(app, chosen);
    add_impair(app, chosen);
    add_icrc_check(app, chosen);
    CLI11_PARSE(app, argc, argv);
    return chosen();
}
