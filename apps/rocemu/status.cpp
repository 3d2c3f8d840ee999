// SPDX-License-Identifier: BSD-3-Clause
// rocemu status and rocemu counters: the daemon's JSON documents, as they are (--json) or laid out for reading.
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "daemon.h"
#include "layout.h"

namespace rocemu::cli {
namespace {

using Json = nlohmann::ordered_json;

int show(const std::string& socket, uint32_t document, bool as_json, const std::string& device) {
    provider::Connection connection;
    if (!greet(connection, socket_path(socket), true)) return kExitNoDaemon;
    std::string text;
    if (!read_document(connection, document, text)) return kExitFailed;
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) return complain(kExitFailed, "the daemon's answer is not JSON");
    if (!device.empty()) {
        if (!json.is_object() || !json.contains(device)) return complain(kExitFailed, "no device " + device);
        const Json one = json[device];
        json = Json{{device, one}};
    }
    const std::string out = as_json ? json.dump(2) + "\n" : laid_out(json);
    std::fwrite(out.data(), 1, out.size(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitFailed;
}

struct Options {
    std::string socket, device;
    bool json = false;
};

}  // namespace

void add_status(CLI::App& app, Action& chosen) {
    CLI::App* command = app.add_subcommand("status", "Devices, shards and attached programs of the daemon");
    auto o = std::make_shared<Options>();
    add_socket_option(*command, o->socket);
    command->add_flag("--json", o->json, "The daemon's JSON");
    command->callback([o, &chosen] { chosen = [o] { return show(o->socket, abi::kAdminStatus, o->json, ""); }; });
}

void add_counters(CLI::App& app, Action& chosen) {
    CLI::App* command = app.add_subcommand("counters", "Counters of all devices, or of one");
    auto o = std::make_shared<Options>();
    add_socket_option(*command, o->socket);
    command->add_flag("--json", o->json, "JSON");
    command->add_option("DEVICE", o->device, "Only this device");
    command->callback(
        [o, &chosen] { chosen = [o] { return show(o->socket, abi::kAdminCounters, o->json, o->device); }; });
}

}  // namespace rocemu::cli
