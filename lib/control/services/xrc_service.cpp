// SPDX-License-Identifier: BSD-3-Clause
// XRC domains and target QPs. A domain is a unit of placement: an XRCETH picks the SRQ packet by packet, so its SRQs and
// targets are on one shard. Read IBTA volume 1, annex A14, and the man pages ibv_open_xrcd and ibv_open_qp.
#include "control/services/xrc_service.h"

#include <algorithm>
#include <cerrno>

#include "control/services/qp_service.h"

namespace rocemu::control {
namespace {

constexpr size_t kMaxXrcds = 256;      // handles of one process: each may keep a file open here
constexpr uint32_t kTargetReceives = 32;  // receives that a target has taken and not completed

std::shared_ptr<XrcDomain> find_domain(const Control& control, uint32_t device, const struct stat& inode) {
    for (const auto& [id, domain] : control.xrc_domains)
        if (domain->opens != 0 && domain->is_of(device, inode)) return domain;
    return nullptr;
}

// nullptr: no number is left.
std::shared_ptr<XrcDomain> make_domain(Call& call, uint32_t device) {
    Control& control = call.control;
    const auto id = control.session_ids.take();
    if (!id) return nullptr;
    auto domain = std::make_shared<XrcDomain>();
    domain->id = *id;
    domain->device = device;
    domain->shard = control.qpns.least_loaded();
    control.xrc_domains.emplace(*id, domain);
    // Calls to a shard keep their order: the domain is there before anything that is created in it.
    control.call(
        call.session, domain->shard,
        [id = *id](engine::Shard& shard) {
            shard.add_xrc_domain(id);
            return true;
        },
        [] {});
    return domain;
}

XrcTarget* target_of(XrcDomain& domain, uint32_t qpn) {
    const auto it = domain.targets.find(qpn);
    return it == domain.targets.end() ? nullptr : &it->second;
}

void remove_target(Control& control, const std::shared_ptr<Session>& session, const std::shared_ptr<XrcDomain>& domain,
                   uint32_t qpn, std::function<void()> done) {
    const uint32_t slot = domain->targets.at(qpn).slot;
    domain->targets.erase(qpn);
    control.call(
        session, domain->shard, [qpn](engine::Shard& shard) { return shard.destroy_qp(qpn); },
        [&control, domain, qpn, slot, done = std::move(done)] {
            control.qpns.give_back(qpn);
            domain->slots.give_back(slot);
            --domain->objects;
            object_left(control, *domain);
            done();
        });
}

}  // namespace

void object_left(Control& control, XrcDomain& domain) {
    if (domain.opens != 0 || domain.objects != 0) return;
    control.shards.submit(
        domain.shard,
        [id = domain.id](engine::Shard& shard) {
            shard.remove_xrc_domain(id);
            return true;
        },
        [&control, id = domain.id] {
            control.xrc_domains.erase(id);
            control.session_ids.give_back(id);
        });
}

void handle(Call& call, const abi::OpenXrcdRequest& request) {
    Session& session = *call.session;
    const auto context = session.contexts.find(request.context);
    if (context == session.contexts.end()) return call.reply.fail(EINVAL);
    if (session.xrcds.size() >= kMaxXrcds) return call.reply.fail(ENOMEM);
    const uint32_t device = context->second.device;
    std::shared_ptr<XrcDomain> domain;
    struct stat inode {};
    if (request.flags & abi::xrcd_flags::kOfFile) {
        if (call.fds.size() != 1 || fstat(call.fds[0].get(), &inode) != 0) return call.reply.fail(EBADF);
        domain = find_domain(call.control, device, inode);
        // As Linux does it: what does not exist must be created, what exists may be asked not to.
        if (domain == nullptr && !(request.flags & abi::xrcd_flags::kCreate)) return call.reply.fail(EAGAIN);
        if (domain != nullptr && (request.flags & abi::xrcd_flags::kExclusive)) return call.reply.fail(EINVAL);
    }
    const auto number = session.xrcd_ids.take();
    if (!number) return call.reply.fail(ENOMEM);
    if (domain == nullptr) {
        domain = make_domain(call, device);
        if (domain == nullptr) {
            session.xrcd_ids.give_back(*number);
            return call.reply.fail(ENOMEM);
        }
        domain->inode = inode;
        if (!call.fds.empty()) domain->file = std::move(call.fds[0]);
    }
    ++domain->opens;
    session.xrcds.emplace(*number, XrcdObject{request.context, 0, domain});
    call.reply.send(abi::OpenXrcdReply{*number});
}

namespace {

void close_domain(Control& control, Session& session, uint32_t number) {
    const auto it = session.xrcds.find(number);
    const std::shared_ptr<XrcDomain> domain = it->second.domain;
    session.xrcds.erase(it);
    session.xrcd_ids.give_back(number);
    --domain->opens;
    object_left(control, *domain);
}

}  // namespace

void handle(Call& call, const abi::CloseXrcdRequest& request) {
    const auto it = call.session->xrcds.find(request.xrcd);
    if (it == call.session->xrcds.end()) return call.reply.fail(EINVAL);
    if (it->second.users != 0) return call.reply.fail(EBUSY);
    close_domain(call.control, *call.session, request.xrcd);
    call.reply.send(abi::CloseXrcdReply{});
}

void create_target(Call& call, const abi::CreateQpRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto xrcd = session.xrcds.find(request.xrcd);
    if (xrcd == session.xrcds.end() || request.create_flags != 0) return call.reply.fail(EINVAL);
    const std::shared_ptr<XrcDomain> domain = xrcd->second.domain;
    if (domain->targets.size() >= static_cast<size_t>(control.config.limits.max_qp)) return call.reply.fail(ENOMEM);
    const auto slot = domain->slots.take();
    const auto qpn = slot ? control.qpns.take(domain->shard) : std::nullopt;
    if (!qpn) {
        if (slot) domain->slots.give_back(*slot);
        return call.reply.fail(ENOMEM);
    }
    ++domain->objects;
    ++xrcd->second.users;
    domain->targets.emplace(
        *qpn, XrcTarget{*slot, {{session.id, request.xrcd, xrcd->second.context, request.cookie}}});

    engine::QpSetup setup;
    setup.config = limits_of(control, domain->device);
    setup.config.qpn = *qpn;
    setup.config.type = QpType::XrcRecv;
    setup.config.has_srq = true;  // of whichever the packet names
    setup.config.caps.max_recv_sge = static_cast<uint32_t>(control.config.limits.max_sge);
    setup.config.send_window_wqes = 1;
    setup.config.recv_window_wqes = kTargetReceives;
    setup.device = domain->device;
    setup.session = domain->id;
    setup.slot = *slot;
    setup.cookie = *qpn;
    abi::CreateQpReply reply;
    reply.qpn = *qpn;
    reply.shard = domain->shard;
    control.call(
        call.session, domain->shard,
        [setup](engine::Shard& shard) {
            shard.create_qp(setup);
            return true;
        },
        [reply, replier = call.reply]() mutable { replier.send(reply); });
}

void handle(Call& call, const abi::OpenQpRequest& request) {
    const auto xrcd = call.session->xrcds.find(request.xrcd);
    if (xrcd == call.session->xrcds.end()) return call.reply.fail(EINVAL);
    XrcDomain& domain = *xrcd->second.domain;
    XrcTarget* target = target_of(domain, request.qpn);
    if (target == nullptr) return call.reply.fail(EINVAL);
    if (target->handles.size() >= static_cast<size_t>(call.control.config.limits.max_qp)) return call.reply.fail(ENOMEM);
    target->handles.push_back({call.session->id, request.xrcd, xrcd->second.context, request.cookie});
    ++xrcd->second.users;
    call.reply.send(abi::OpenQpReply{});
}

std::shared_ptr<XrcDomain> find_target(const Session& session, uint32_t qpn) {
    for (const auto& [number, xrcd] : session.xrcds) {
        const XrcTarget* target = target_of(*xrcd.domain, qpn);
        if (target == nullptr) continue;
        const auto& list = target->handles;
        const bool opened =
            std::any_of(list.begin(), list.end(), [&](const XrcHandle& h) { return h.session == session.id; });
        if (opened) return xrcd.domain;
    }
    return nullptr;
}

bool close_target(Control& control, const std::shared_ptr<Session>& session, uint32_t qpn, uint64_t cookie,
                  std::function<void()> done) {
    const std::shared_ptr<XrcDomain> domain = find_target(*session, qpn);
    if (domain == nullptr) return false;
    auto& handles = domain->targets.at(qpn).handles;
    const auto it = std::find_if(handles.begin(), handles.end(), [&](const XrcHandle& h) {
        return h.session == session->id && h.cookie == cookie;
    });
    if (it == handles.end()) return false;
    if (const auto xrcd = session->xrcds.find(it->xrcd); xrcd != session->xrcds.end()) --xrcd->second.users;
    session->forget_events(it->context, cookie);
    handles.erase(it);
    if (handles.empty())
        remove_target(control, session, domain, qpn, std::move(done));
    else
        done();
    return true;
}

void close_targets(Control& control, const std::shared_ptr<Session>& session, uint32_t context) {
    std::vector<std::pair<uint32_t, uint64_t>> mine;
    std::vector<const XrcDomain*> seen;  // a domain may have been opened twice
    for (const auto& [number, xrcd] : session->xrcds) {
        if (std::find(seen.begin(), seen.end(), xrcd.domain.get()) != seen.end()) continue;
        seen.push_back(xrcd.domain.get());
        for (const auto& [qpn, target] : xrcd.domain->targets)
            for (const XrcHandle& h : target.handles)
                if (h.session == session->id && h.context == context) mine.emplace_back(qpn, h.cookie);
    }
    for (const auto& [qpn, cookie] : mine) close_target(control, session, qpn, cookie, [] {});
}

void close_domains(Control& control, Session& session, uint32_t context) {
    std::vector<uint32_t> mine;
    for (const auto& [number, xrcd] : session.xrcds)
        if (xrcd.context == context) mine.push_back(number);
    for (const uint32_t number : mine) close_domain(control, session, number);
}

void tell_handles(Control& control, const XrcDomain& domain, const engine::ShardEvent& event) {
    const auto it = domain.targets.find(static_cast<uint32_t>(event.cookie));
    if (it == domain.targets.end()) return;
    for (const XrcHandle& h : it->second.handles) {
        engine::ShardEvent copy = event;
        copy.session = h.session;
        copy.object = h.context;
        copy.cookie = h.cookie;
        control.on_shard_event(copy);
    }
}

}  // namespace rocemu::control
