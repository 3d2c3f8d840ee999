// SPDX-License-Identifier: BSD-3-Clause
// rocemu: the command line. `rocemu run` attaches a program to the daemon, the others look at the daemon or at captures.
#include <cstdio>
#include <string_view>
#include <vector>

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

namespace {

// Where the words of a program begin in `rocemu run [OPTION...] [--] PROGRAM ARG...`; argc if there are none. They are
// taken away before the command line is parsed: whatever they look like, they are not ours.
int program_begin(int argc, char** argv) {
    if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
    for (int i = 2; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--" || word.empty() || word[0] != '-') return i;
        if (word == "--socket") ++i;
    }
    return argc;
}

}  // namespace
}  // namespace rocemu::cli

int main(int argc, char** argv) {
    using namespace rocemu::cli;
    CLI::App app{"rocemu: a software RoCE NIC. Attaches programs to its daemon and looks into it."};
    app.name("rocemu");
    app.set_version_flag("--version", ROCEMU_VERSION);
    Action chosen;
    const int begin = program_begin(argc, argv);
    std::vector<std::string> program(argv + begin, argv + argc);
    if (!program.empty() && program[0] == "--") program.erase(program.begin());
    add_run(app, program, chosen);
    add_status(app, chosen);
    add_counters(app, chosen);
    add_capture(app, chosen);
    add_impair(app, chosen);
    add_icrc_check(app, chosen);
    try {
        app.parse(begin, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
        return complain(kExitFailed, std::string(e.what()) + " (rocemu --help says what there is)");
    }
    return chosen ? chosen() : complain(kExitFailed, "no command given (rocemu --help says what there is)");
}
