// SPDX-License-Identifier: BSD-3-Clause
// Hello: version, identity, payload path, and the session's first shared region. See abi/session_page.h for its layout.
#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "abi/agent_ring.h"
#include "abi/stage.h"
#include "control/log.h"
#include "control/services/services.h"
#include "payload/probe.h"

namespace rocemu::control {
namespace {

constexpr uint64_t round_up(uint64_t v, uint64_t to) {
    return (v + to - 1) / to * to;
}

// How this process's memory is reached; None: not at all.
payload::Path choose_path(const Control& control, Session& session, const abi::HelloRequest& request) {
    const std::string& wanted = control.config.daemon.payload;
    const bool agent = request.features & abi::kFeatureAgent;
    // A process number is not a process: it may run another program tomorrow (exec of a privileged one included). For
    // processes of our own user the kernel checks that on every call; a root daemon would be allowed everything, so it
    // uses process_vm for root's processes only.
    int error = EACCES;
    if (wanted != "agent" && (request.features & abi::kFeatureProcessVm) && session.peer.uid == geteuid()) {
        error = payload::probe_process_vm(session.peer.pid, request.probe_va, request.probe_cookie);
        if (error == 0) return payload::Path::ProcessVm;
    }
    if (wanted != "pull" && agent) {
        if (wanted != "agent")
            log::info("{}: process_vm is refused ({}), using the agent", session.name(), std::strerror(error));
        return payload::Path::Agent;
    }
    log::warn("{}: its memory cannot be reached: process_vm: {}, agent: {}", session.name(), std::strerror(error),
              agent ? "not allowed by daemon.payload" : "not offered");
    return payload::Path::None;
}

struct Layout {
    uint64_t doorbells, agent, stage, receive_stage, bytes;
};
Layout layout_of(uint32_t shards, bool agent, bool capture, bool deferred) {
    Layout l{};
    l.doorbells = round_up(sizeof(abi::SessionPage), 4096);
    l.bytes = round_up(l.doorbells + shards * sizeof(abi::DoorbellBlock), 4096);
    if (agent) {
        l.agent = l.bytes;
        l.bytes += shards * sizeof(abi::AgentRing);
    }
    if (capture) {
        l.stage = round_up(l.bytes, abi::kStageBlock);
        l.bytes = l.stage + abi::kStageBytes;
    }
    if (deferred) {
        l.receive_stage = round_up(l.bytes, alignof(abi::ReceiveStage));
        l.bytes = l.receive_stage + shards * sizeof(abi::ReceiveStage);
    }
    return l;
}

// One eventfd a shard, and second descriptors of them in `copies`, for the program. 0 or errno.
int make_wake_fds(Session& session, uint32_t shards, std::vector<UniqueFd>& copies) {
    session.wake_fds.clear();
    for (uint32_t i = 0; i < shards; ++i) {
        UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        copies.emplace_back(fd ? fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
        if (!copies.back()) return errno;
        session.wake_fds.push_back(std::move(fd));
    }
    return 0;
}

// As many programs as are allowed; tools, and who has not said yet what it is, do not count.
bool is_full(const Control& control) {
    const auto attached = std::count_if(control.sessions.begin(), control.sessions.end(),
                                        [](const auto& s) { return s.second->page != nullptr; });
    return attached >= control.config.limits.max_sessions;
}

void fill_version(Control& control, abi::HelloReply& reply) {
    reply.shards = control.shards.size();
    reply.devices = static_cast<uint32_t>(control.devices.size());
    std::snprintf(reply.daemon_version, sizeof reply.daemon_version, "%s", ROCEMU_VERSION);
}

void greet_tool(Call& call) {
    // Tools see every session and may record every frame: the daemon's own user and root only.
    if (call.session->peer.uid != geteuid() && call.session->peer.uid != 0) return call.reply.fail(EPERM);
    call.session->greeted = call.session->admin = true;
    abi::HelloReply reply;
    fill_version(call.control, reply);
    call.reply.send(reply);
}

}  // namespace

void handle(Call& call, const abi::HelloRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    if (request.version_major != abi::kVersionMajor) {
        log::info("{}: version {}.{} of the border, ours is {}.{}", session.name(), request.version_major,
                  request.version_minor, abi::kVersionMajor, abi::kVersionMinor);
        return call.reply.fail(EPROTONOSUPPORT);
    }
    if (request.admin) return greet_tool(call);
    if (is_full(control)) {
        log::warn("{}: refused: limits.max_sessions is reached", session.name());
        return call.reply.fail(EUSERS);
    }
    const uint32_t shards = control.shards.size();
    session.path = choose_path(control, session, request);
    if (session.path == payload::Path::None) return call.reply.fail(EPERM);

    const std::string& wanted = control.config.daemon.payload;
    session.capture = (request.features & abi::kFeatureCapture) && (wanted == "auto" || wanted == "capture" || wanted == "deferred" || wanted == "share");
    // Of several shards each would have to know what the others have deferred before it reaches into the process.
    session.deferred = (request.features & abi::kFeatureDeferred) && wanted == "deferred" && shards == 1;
    // What the daemon maps it also pays for, and others' files are none of its business: its own user only.
    session.mapped = (request.features & abi::kFeatureMapped) && (wanted == "auto" || wanted == "deferred" || wanted == "share") &&
                     session.peer.uid == geteuid();
    session.share = (request.features & abi::kFeatureShare) && wanted == "share" && session.mapped;
    const Layout layout = layout_of(shards, request.features & abi::kFeatureAgent, session.capture, session.deferred);
    session.region0 = SharedRegion::create(layout.bytes);
    if (!session.region0) return call.reply.fail(errno);
    std::vector<UniqueFd> fds;
    fds.push_back(session.region0->take_fd());
    if (const int error = make_wake_fds(session, shards, fds)) return call.reply.fail(error);
    std::byte* base = session.region0->address();
    session.page = reinterpret_cast<abi::SessionPage*>(base);
    session.arena = std::make_unique<QueueArena>(static_cast<uint64_t>(control.config.limits.session_memory_mb) << 20);
    session.greeted = true;

    std::vector<engine::SessionSetup> setups(shards);
    for (uint32_t i = 0; i < shards; ++i) {
        session.space_stats.push_back(std::make_unique<payload::SpaceStats>());
        auto& s = setups[i];
        s.id = session.id;
        s.space.id = session.id;
        s.space.pid = session.peer.pid;
        s.space.path = session.path;
        if (layout.agent) s.space.agent = reinterpret_cast<abi::AgentRing*>(base + layout.agent) + i;
        if (layout.stage) s.stage = base + layout.stage;
        if (layout.receive_stage)
            s.space.receive_stage = reinterpret_cast<abi::ReceiveStage*>(base + layout.receive_stage) + i;
        s.space.stats = session.space_stats.back().get();
        s.page = session.page;
        s.doorbells = reinterpret_cast<abi::DoorbellBlock*>(base + layout.doorbells) + i;
        s.wake_fd = session.wake_fds[i].get();
    }

    abi::HelloReply reply;
    fill_version(control, reply);
    reply.features = request.features & (abi::kFeatureProcessVm | abi::kFeatureAgent);
    if (session.capture) reply.features |= abi::kFeatureCapture;
    if (session.mapped) reply.features |= abi::kFeatureMapped;
    if (session.deferred) reply.features |= abi::kFeatureDeferred;
    if (session.share) reply.features |= abi::kFeatureShare;
    reply.payload_path = session.path == payload::Path::ProcessVm ? abi::kPathProcessVm : abi::kPathAgent;
    reply.region0_bytes = layout.bytes;
    reply.doorbells_offset = layout.doorbells;
    reply.agent_offset = layout.agent;
    reply.stage_offset = layout.stage;
    reply.receive_stage_offset = layout.receive_stage;

    control.call_all(
        call.session,
        [setups](engine::Shard& shard, uint32_t index) {
            shard.add_session(setups[index]);
            return true;
        },
        [reply, replier = call.reply, fds = std::make_shared<std::vector<UniqueFd>>(std::move(fds))]() mutable {
            replier.send(reply, std::move(*fds));
        });
    const char* ways = session.deferred ? "capture, deferred and " : session.share ? "capture, shared memory and " : session.capture ? "capture and " : "";
    log::info("{}: uid {}, attached, payload by {}{}", session.name(), session.peer.uid, ways,
              session.path == payload::Path::ProcessVm ? "process_vm" : "agent");
}

}  // namespace rocemu::control
