// SPDX-License-Identifier: BSD-3-Clause
// rocemu run: starts a program attached: the provider in LD_PRELOAD, the socket in ROCEMU_SOCKET. The daemon is asked
// first, as the program itself would ask; if it is not there or refuses, nothing is started.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <unistd.h>

#include "abi/socket_path.h"
#include "commands.h"
#include "daemon.h"
#include "view_namespace.h"

namespace rocemu::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kProvider = "librocemu-provider.so";

// Beside this binary, in the build tree or installed, so that both can be moved as a whole.
std::string find_provider() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) return {};
    const fs::path here = self.parent_path();
    for (const char* relative : {"../lib/provider", ROCEMU_LIB_FROM_BIN, "../lib", "../lib64"}) {
        const fs::path candidate = here / relative / kProvider;
        if (fs::exists(candidate, error)) return fs::canonical(candidate, error).string();
    }
    return {};
}

void preload(const std::string& provider) {
    const char* before = std::getenv("LD_PRELOAD");
    std::string value = provider;
    if (before != nullptr && *before != '\0') {
        // Attached already, perhaps by another build: ours once, in front of what else is there.
        for (const char* p = before; *p != '\0';) {
            const size_t n = std::strcspn(p, ": ");
            const std::string entry(p, n);
            if (n > 0 && fs::path(entry).filename() != kProvider) value += ":" + entry;
            p += n + (p[n] != '\0' ? 1 : 0);
        }
    }
    setenv("LD_PRELOAD", value.c_str(), 1);
}

int run(const std::string& socket, bool own_namespace, const std::vector<std::string>& words) {
    if (words.empty()) return complain(kExitFailed, "run: no program given");
    const std::string provider = find_provider();
    if (provider.empty()) return complain(kExitNoDaemon, std::string(kProvider) + " is not where it belongs");
    if (provider.find_first_of(": ") != std::string::npos)
        return complain(kExitNoDaemon, "the dynamic linker cannot preload from a path with a space or colon: " + provider);
    const std::string path = socket_path(socket);
    {
        provider::Connection connection;
        if (!greet(connection, path, false)) return kExitNoDaemon;
    }
    if (own_namespace)
        if (const auto error = enter_view_namespace(abi::view_directory(path)); !error.empty())
            return complain(kExitNoDaemon, "--namespace: " + error);
    preload(provider);
    setenv(abi::kSocketVariable, path.c_str(), 1);

    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    return complain(error == ENOENT ? kExitNotFound : kExitCannotExecute, words[0] + ": " + std::strerror(error));
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen) {
    CLI::App* command = app.add_subcommand("run", "Start a program that sees rocemu's devices");
    auto socket = std::make_shared<std::string>();
    auto own_namespace = std::make_shared<bool>(false);
    add_socket_option(*command, *socket);
    command->add_flag("--namespace", *own_namespace,
                      "In a mount namespace whose /sys and /dev show the devices, where that is allowed");
    command->footer("rocemu run [--socket PATH] [--namespace] -- PROGRAM [ARG...]\n"
                    "Exit code: that of the program; 2: no daemon, another version, refused; 126, 127: as env(1).");
    command->callback([=, &program, &chosen] {
        chosen = [=, &program] { return run(*socket, *own_namespace, program); };
    });
}

}  // namespace rocemu::cli
