// SPDX-License-Identifier: BSD-3-Clause
// rocemu capture: the daemon writes a pcapng file that this process has opened (so it is the user's own), until a signal
// ends it.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "commands.h"
#include "daemon.h"

namespace rocemu::cli {
namespace {

struct Options {
    std::string socket, device, file;
    uint32_t snap = 0;
};

abi::AdminCaptureRequest request_of(const Options& o, bool stop) {
    abi::AdminCaptureRequest request;
    std::strncpy(request.device, o.device.c_str(), sizeof request.device - 1);
    request.stop = stop ? 1 : 0;
    request.snap_length = o.snap;
    return request;
}

int capture(const Options& o) {
    provider::Connection connection;
    if (!greet(connection, socket_path(o.socket), true)) return kExitNoDaemon;
    // Not emptied here: the daemon does that when it accepts. A FIFO waits for its reader here, interruptibly.
    int file = open(o.file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool is_new = file >= 0;
    if (file < 0 && errno == EEXIST) file = open(o.file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return complain(kExitFailed, o.file + ": " + std::strerror(errno));
    // Blocked before the capture begins: no signal is lost between here and the wait.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);

    abi::AdminCaptureReply reply;
    int rc = connection.call(request_of(o, false), reply, {&file, 1});
    close(file);
    if (rc != 0) {
        if (is_new) unlink(o.file.c_str());  // as if nobody had asked
        return complain(kExitFailed, rc == ENODEV || rc == ENOENT ? "no device " + o.device
                                                                  : o.device + ": " + std::strerror(rc));
    }
    std::fprintf(stderr, "capturing %s to %s\n", o.device.c_str(), o.file.c_str());

    pollfd wait[2] = {{signal_fd, POLLIN, 0}, {connection.fd(), POLLRDHUP, 0}};
    while (poll(wait, 2, -1) < 0 && errno == EINTR) {
    }
    if (wait[0].revents == 0) return complain(kExitFailed, "the daemon has ended; the capture is complete up to then");
    rc = connection.call(request_of(o, true), reply);
    if (rc != 0) return complain(kExitFailed, o.file + ": " + std::strerror(rc) + ": the capture is not complete");
    std::fprintf(stderr, "%llu frames captured, %llu missed\n", static_cast<unsigned long long>(reply.frames),
                 static_cast<unsigned long long>(reply.missed));
    return kExitOk;
}

}  // namespace

void add_capture(CLI::App& app, Action& chosen) {
    CLI::App* command = app.add_subcommand(
        "capture", "Write a device's frames, both directions, dropped ones with the reason, to a pcapng file");
    auto o = std::make_shared<Options>();
    add_socket_option(*command, o->socket);
    command->add_option("-d,--device", o->device, "Device")->required();
    command->add_option("-w,--write", o->file, "File")->required();
    command->add_option("-s,--snap-length", o->snap, "Bytes of a frame that are kept (default: all)");
    command->callback([o, &chosen] { chosen = [o] { return capture(*o); }; });
}

}  // namespace rocemu::cli
