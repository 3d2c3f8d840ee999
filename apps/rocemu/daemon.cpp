// SPDX-License-Identifier: BSD-3-Clause
// See daemon.h.
#include "daemon.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "abi/socket_path.h"
#include "commands.h"

namespace rocemu::cli {
namespace {

constexpr uint32_t kTimeoutMs = 10'000;

std::string why_not_connected(const std::string& path, int error) {
    switch (error) {
        case ENOENT:
        case ECONNREFUSED: return "no daemon is running at " + path + " (start rocemud)";
        case EACCES: return "permission refused by " + path;
        case EPERM: return "what listens at " + path + " belongs to another user, and is not trusted";
        default: return "cannot reach the daemon at " + path + ": " + std::strerror(error);
    }
}

}  // namespace

std::string socket_path(const std::string& option) {
    const std::string path = option.empty() ? abi::default_socket_path() : option;
    std::error_code ignored;
    return std::filesystem::absolute(path, ignored).string();
}

bool greet(provider::Connection& connection, const std::string& path, bool as_tool) {
    if (const int error = connection.connect(path.c_str(), kTimeoutMs); error != 0) {
        complain(kExitNoDaemon, why_not_connected(path, error));
        return false;
    }
    abi::HelloReply reply;
    provider::FdList fds;
    int error = 0;
    switch (connection.hello(as_tool, as_tool ? 0 : abi::kFeatureProcessVm | abi::kFeatureAgent, reply, fds, &error)) {
        case provider::HelloFailure::None: return true;
        case provider::HelloFailure::Version:
            complain(kExitNoDaemon, "the daemon at " + path + " is of another version than this rocemu (border " +
                                        std::to_string(abi::kVersionMajor) + "." + std::to_string(abi::kVersionMinor) +
                                        "): restart it");
            return false;
        case provider::HelloFailure::Refused:
            complain(kExitNoDaemon, "the daemon at " + path + " refused: " + std::strerror(error));
            return false;
        default:
            if (error == EUSERS) {
                complain(kExitNoDaemon, "the daemon at " + path + " has as many attached processes as limits.max_sessions allows");
                return false;
            }
            complain(kExitNoDaemon, "what answers at " + path + " is no rocemu daemon, or it has a problem: " +
                                        std::strerror(error));
            return false;
    }
}

bool read_document(provider::Connection& connection, uint32_t document, std::string& text) {
    text.clear();
    for (;;) {
        abi::AdminTextReply reply;
        const int rc = connection.call(abi::AdminTextRequest{document, static_cast<uint32_t>(text.size())}, reply);
        if (rc != 0) {
            complain(kExitFailed, std::string("the daemon does not answer: ") + std::strerror(rc));
            return false;
        }
        text.append(reply.text, std::min(reply.length, abi::kAdminChunk));
        if (reply.length == 0 || text.size() >= reply.total) return true;
    }
}

}  // namespace rocemu::cli
