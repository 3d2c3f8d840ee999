// SPDX-License-Identifier: BSD-3-Clause
// Devices and contexts: list, open, close, query.
#include <cerrno>
#include <cstdio>

#include "control/device_attributes.h"
#include "control/services/services.h"
#include "control/teardown.h"

namespace rocemu::control {
namespace {

// The device of a context of this session, or nullptr.
const Device* device_of(Call& call, uint32_t context) {
    const auto it = call.session->contexts.find(context);
    return it == call.session->contexts.end() ? nullptr : call.control.devices[it->second.device].get();
}

}  // namespace

void handle(Call& call, const abi::ListDeviceRequest& request) {
    if (request.index >= call.control.devices.size()) return call.reply.fail(ENOENT);
    const Device& device = *call.control.devices[request.index];
    abi::ListDeviceReply reply;
    std::snprintf(reply.name, sizeof reply.name, "%s", device.name().c_str());
    std::snprintf(reply.netdev, sizeof reply.netdev, "%s", device.netdev().c_str());
    reply.node_guid = device.node_guid();
    reply.index = request.index;
    call.reply.send(reply);
}

void handle(Call& call, const abi::OpenContextRequest& request) {
    Session& session = *call.session;
    if (request.device >= call.control.devices.size()) return call.reply.fail(ENODEV);
    if (session.contexts.size() >= static_cast<size_t>(call.control.config.limits.max_channels))
        return call.reply.fail(ENOMEM);
    ContextObject context;
    context.device = request.device;
    if (!call.fds.empty()) {
        if (!EventOutbox::accepts(call.fds[0].get())) return call.reply.fail(EINVAL);
        context.events = std::make_unique<EventOutbox>(call.control.loop, std::move(call.fds[0]));
    }
    const auto id = session.context_ids.take();
    if (!id) return call.reply.fail(ENOMEM);
    session.contexts.emplace(*id, std::move(context));
    abi::OpenContextReply reply;
    reply.context = *id;
    call.reply.send(reply);
}

void handle(Call& call, const abi::CloseContextRequest& request) {
    if (!call.session->contexts.contains(request.context)) return call.reply.fail(EINVAL);
    // As the kernel does for a closed device file: what the program left behind goes with it.
    destroy_context(call.control, call.session, request.context,
                    [reply = call.reply]() mutable { reply.send(abi::CloseContextReply{}); });
}

void handle(Call& call, const abi::QueryDeviceRequest& request) {
    const Device* device = device_of(call, request.context);
    if (!device) return call.reply.fail(EINVAL);
    call.reply.send(device_attributes(*device, call.control.config.limits, call.control.shards.size()));
}

void handle(Call& call, const abi::QueryPortRequest& request) {
    const Device* device = device_of(call, request.context);
    if (!device || request.port != 1) return call.reply.fail(EINVAL);
    call.reply.send(port_attributes(*device));
}

void handle(Call& call, const abi::QueryGidRequest& request) {
    const Device* device = device_of(call, request.context);
    if (!device || request.port != 1) return call.reply.fail(EINVAL);
    call.reply.send(gid_entries(*device, request.first));
}

}  // namespace rocemu::control
