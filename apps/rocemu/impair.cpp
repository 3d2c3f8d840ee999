// SPDX-License-Identifier: BSD-3-Clause
// rocemu impair: faults on the link of a fabric device. What is not named is switched off.
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "commands.h"
#include "daemon.h"

namespace rocemu::cli {
namespace {

struct Options {
    std::string socket, device, drop, duplicate, reorder, corrupt, delay;
    uint64_t seed = 0;
};

// "1.5%", "300ppm", or a fraction of 1 as in the configuration: "0.015". False: neither.
bool parse_share(const std::string& text, uint32_t& ppm) {
    if (text.empty()) return true;
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (std::strcmp(end, "%") == 0)
        value *= 10'000;
    else if (*end == '\0')
        value *= 1'000'000;
    else if (std::strcmp(end, "ppm") != 0)
        return false;
    if (end == text.c_str() || !(value >= 0 && value <= 1'000'000)) return false;
    ppm = static_cast<uint32_t>(std::lround(value));
    return true;
}

// "20us", "1.5ms", "300" (nanoseconds).
bool parse_time(const std::string& text, uint64_t& ns) {
    if (text.empty()) return true;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const std::string unit = end;
    double factor = 0;
    if (unit.empty() || unit == "ns") factor = 1;
    if (unit == "us") factor = 1e3;
    if (unit == "ms") factor = 1e6;
    if (unit == "s") factor = 1e9;
    if (end == text.c_str() || factor == 0 || !(value >= 0 && value * factor <= 60e9)) return false;
    ns = static_cast<uint64_t>(value * factor);
    return true;
}

int impair(const Options& o) {
    abi::AdminImpairRequest request;
    std::strncpy(request.device, o.device.c_str(), sizeof request.device - 1);
    request.seed = o.seed;
    if (!parse_share(o.drop, request.drop_ppm)) return complain(kExitFailed, "--drop: not a share: " + o.drop);
    if (!parse_share(o.duplicate, request.duplicate_ppm))
        return complain(kExitFailed, "--duplicate: not a share: " + o.duplicate);
    if (!parse_share(o.reorder, request.reorder_ppm))
        return complain(kExitFailed, "--reorder: not a share: " + o.reorder);
    if (!parse_share(o.corrupt, request.corrupt_ppm))
        return complain(kExitFailed, "--corrupt: not a share: " + o.corrupt);
    if (!parse_time(o.delay, request.delay_ns)) return complain(kExitFailed, "--delay: not a time: " + o.delay);
    provider::Connection connection;
    if (!greet(connection, socket_path(o.socket), true)) return kExitNoDaemon;
    abi::AdminImpairReply reply;
    const int rc = connection.call(request, reply);
    if (rc == 0) return kExitOk;
    if (rc == ENODEV || rc == ENOENT) return complain(kExitFailed, "no device " + o.device);
    if (rc == EOPNOTSUPP) return complain(kExitFailed, o.device + " is not on the embedded fabric");
    return complain(kExitFailed, o.device + ": " + std::strerror(rc));
}

}  // namespace

void add_impair(CLI::App& app, Action& chosen) {
    CLI::App* command =
        app.add_subcommand("impair", "Inject faults into the frames a fabric device sends; without options: none");
    auto o = std::make_shared<Options>();
    add_socket_option(*command, o->socket);
    command->add_option("DEVICE", o->device, "Device")->required();
    command->add_option("--drop", o->drop, "Share of frames: 1.5%, 300ppm, or a fraction such as 0.015");
    command->add_option("--duplicate", o->duplicate, "Share of frames");
    command->add_option("--reorder", o->reorder, "Share of frames");
    command->add_option("--corrupt", o->corrupt, "Share of frames: one bit flipped");
    command->add_option("--delay", o->delay, "Time every frame takes, such as 20us");
    command->add_option("--seed", o->seed, "Begins the random sequence anew (0: goes on)");
    command->callback([o, &chosen] { chosen = [o] { return impair(*o); }; });
}

}  // namespace rocemu::cli
