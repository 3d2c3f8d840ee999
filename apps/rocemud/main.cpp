// SPDX-License-Identifier: BSD-3-Clause
// rocemud: composition root. Configuration, socket, machine (ports and shards), server; then waits for a signal.
// Exit code 0 after SIGTERM or SIGINT, 1 for everything that keeps it from starting. SIGHUP opens the log file anew.
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "abi/socket_path.h"
#include "control/log.h"
#include "control/server.h"
#include "logging.h"
#include "machine.h"
#include "options.h"

namespace rocemu::daemon {
namespace {

// Blocked in this thread before any other is made, so that signals come here alone.
control::UniqueFd take_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    return control::UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

void say_ready(int fd) {
    if (fd < 0) return;
    (void)!::write(fd, "ready\n", 6);
    ::close(fd);
}

std::string socket_of(const Options& options, const config::Config& config) {
    if (!options.socket.empty()) return options.socket;
    return config.daemon.socket.empty() ? abi::default_socket_path() : config.daemon.socket;
}

void run(const Options& options, const config::Config& config) {
    set_up_logging(config.daemon);
    const auto signals = take_signals();
    control::EventLoop loop;
    loop.add(signals.get(), EPOLLIN, [&](uint32_t) {
        signalfd_siginfo signal{};
        while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) {
            if (signal.ssi_signo == SIGHUP)
                reopen_log(config.daemon);
            else
                loop.stop();
        }
    });
    control::Listener listener(socket_of(options, config), config.daemon);
    Machine machine(config);
    auto devices = machine.make_devices();
    for (const auto& device : devices)
        log::info("{}: {}, {}, MTU {}", device->name(), device->port(), wire::to_string(device->mac()), device->mtu());
    machine.start();
    control::Server server(config, loop, listener, machine.shards(), std::move(devices), machine.fabric());
    log::info("rocemud {} listens on {}", ROCEMU_VERSION, listener.path());
    say_ready(options.ready_fd);
    server.run();
    log::info("ending");
    server.shut_down(2 * kSecond);
    machine.stop();
}

int start(int argc, char** argv) {
    int exit_code = 1;
    const auto options = parse_options(argc, argv, exit_code);
    if (!options) return exit_code;
    try {
        run(*options, options->config.empty() ? config::defaults() : config::load(options->config));
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "rocemud: %s\n", e.what());
        return 1;
    }
}

}  // namespace
}  // namespace rocemu::daemon

int main(int argc, char** argv) {
    return rocemu::daemon::start(argc, argv);
}
