// SPDX-License-Identifier: BSD-3-Clause
// Memory regions. Registration pins and touches nothing: a range without memory behind it fails when it is used.
// Read IBTA volume 1, 10.6.3 and the ibv_reg_mr man page. A key is in every shard's table before the program learns it,
// and in none any more when deregistration is answered.
#include "control/services/mr_service.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "abi/null_region.h"
#include "control/log.h"
#include "control/services/services.h"

namespace rocemu::control {
namespace {

constexpr uint32_t kMandatoryAccess = 0xfffff;  // flags from bit 20 on are hints that may be ignored
constexpr uint32_t kKnownAccess = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kRemoteRead |
                                  access_flags::kRemoteAtomic | access_flags::kMwBind | access_flags::kZeroBased |
                                  access_flags::kOnDemand | access_flags::kHugetlb;

// nullptr, or what is wrong.
const char* fault_of(const memory::Region& r) {
    if (r.access & kMandatoryAccess & ~kKnownAccess) return "unknown access flag";
    // Who lets others write lets itself write.
    const bool remote_write = r.access & (access_flags::kRemoteWrite | access_flags::kRemoteAtomic);
    if (remote_write && !(r.access & access_flags::kLocalWrite))
        return "remote write or atomic access without local write";
    if (r.length > ~r.va) return "address range wraps";
    if (r.length > ~r.iova) return "iova range wraps";
    return nullptr;
}

// The file behind the region, mapped: a part of it or all; nullptr: none came, or none that will do.
std::shared_ptr<MappedFile> map_file(Call& call, const abi::RegionFile& file, const memory::Region& region) {
    Session& session = *call.session;
    if (file.share_error != 0) {
        ++session.share_refused;
        if (session.share_error != static_cast<int>(file.share_error))
            log::info("{}: memory of a region stays private: {}", session.name(), std::strerror(static_cast<int>(file.share_error)));
        session.share_error = static_cast<int>(file.share_error);
    }
    if (!session.mapped || call.fds.empty()) return nullptr;
    const uint64_t skip = file.va - region.va;
    if (file.va < region.va || skip > region.length || file.length > region.length - skip) return nullptr;
    return MappedFile::create(call.fds[0].get(), {file.device, file.inode, file.offset}, file.length,
                              region.access & access_flags::kLocalWrite);
}

// Is what is sent from it better left where it is than captured? Not where something else of the process may stand in front of
// a read: what it has to place before, or its agent.
bool reads_at_once(const Session& session, const memory::Region& region) {
    return region.mapped && !session.deferred && session.path == payload::Path::ProcessVm;
}

}  // namespace

void handle(Call& call, const abi::RegMrRequest& request) {
    Session& session = *call.session;
    Control& control = call.control;
    const auto pd = session.pds.find(request.pd);
    if (pd == session.pds.end()) return call.reply.fail(EINVAL);
    memory::Region region;
    region.pd = request.pd;
    region.access = request.access;
    region.iova = request.access & access_flags::kZeroBased ? 0 : request.iova;
    region.length = request.length;
    region.va = request.va;
    region.space = session.id;
    if (request.access == abi::kNullRegion) {
        region.access = access_flags::kLocalWrite;
        region.va = region.iova = 0;
        region.length = ~uint64_t{0};
        region.space = abi::kNullSpace;
    }
    if (const char* fault = fault_of(region)) {
        log::info("{}: reg_mr({:#x}, {}): {}", session.name(), request.va, request.length, fault);
        return call.reply.fail(EINVAL);
    }
    if (session.mrs.size() >= static_cast<size_t>(control.config.limits.max_mr)) return call.reply.fail(ENOMEM);
    const auto key = control.keys.take();
    if (!key) return call.reply.fail(ENOMEM);
    region.key = *key;
    const auto file = map_file(call, request.file, region);
    region.mapped = file != nullptr;
    session.mrs.emplace(*key, MrObject{request.pd, pd->second.context, region, file});
    ++pd->second.users;
    control.call_all(
        call.session,
        [region, file, part = request.file](engine::Shard& shard, uint32_t) {
            if (file) shard.map_region(region.space, region.key, file->address(), part.va, part.length);
            shard.keys().insert(region);
            return true;
        },
        [key = *key, mapped = reads_at_once(session, region), reply = call.reply]() mutable {
            reply.send(abi::RegMrReply{key, mapped});
        });
}

void remove_mr(Control& control, const std::shared_ptr<Session>& session, uint32_t key, std::function<void()> done) {
    const auto it = session->mrs.find(key);
    const uint32_t pd_id = it->second.pd;
    auto file = std::move(it->second.file);  // mapped until no shard knows it any more
    session->mrs.erase(it);
    control.call_all(
        session,
        [key, id = session->id, fence = uint64_t{0}](engine::Shard& shard, uint32_t) mutable {
            shard.keys().remove(key);
            shard.unmap_region(id, key);
            return shard.payload_passed(id, fence);
        },
        [&control, session, key, pd_id, file = std::move(file), done = std::move(done)]() mutable {
            file.reset();  // before the program learns that it has its memory for itself
            control.keys.give_back(key);
            if (const auto pd = session->pds.find(pd_id); pd != session->pds.end()) --pd->second.users;
            done();
        });
}

void handle(Call& call, const abi::ReregMrRequest& request) {
    Session& session = *call.session;
    const auto it = session.mrs.find(request.key);
    if (it == session.mrs.end()) return call.reply.fail(EINVAL);
    MrObject& mr = it->second;
    memory::Region region = mr.region;
    if (region.space == abi::kNullSpace) return call.reply.fail(EINVAL);  // nothing of it can change
    if (request.mask & abi::rereg_mask::kPd) {
        const auto pd = session.pds.find(request.pd);
        if (pd == session.pds.end() || pd->second.context != mr.context) return call.reply.fail(EINVAL);
        region.pd = request.pd;
    }
    if (request.mask & abi::rereg_mask::kAccess) region.access = request.access;
    if (request.mask & abi::rereg_mask::kTranslation) {
        region.va = request.va;
        region.length = request.length;
        region.iova = region.access & access_flags::kZeroBased ? 0 : request.va;
    }
    if (const char* fault = fault_of(region)) {
        log::info("{}: rereg_mr {:#x}: {}", session.name(), request.key, fault);
        return call.reply.fail(EINVAL);
    }
    ++session.pds.at(region.pd).users;
    --session.pds.at(mr.pd).users;
    // The file, if there was one, lies behind the old registration: it stays until no shard knows that any more.
    auto before = std::move(mr.file);
    const auto file = mr.file = map_file(call, request.file, region);
    region.mapped = file != nullptr;
    mr.pd = region.pd;
    mr.region = region;
    // Bindings of windows end with the old registration, and nothing uses it any more when this is answered.
    call.control.call_all(
        call.session,
        [region, file, part = request.file, id = session.id, fence = uint64_t{0}](engine::Shard& shard, uint32_t) mutable {
            if (fence == 0) {
                shard.keys().remove(region.key);
                shard.unmap_region(id, region.key);
                if (file) shard.map_region(id, region.key, file->address(), part.va, part.length);
                shard.keys().insert(region);
            }
            return shard.payload_passed(id, fence);
        },
        [before = std::move(before), mapped = reads_at_once(session, region), reply = call.reply]() mutable {
            before.reset();  // unmapped when the program learns it
            reply.send(abi::ReregMrReply{mapped});
        });
}

void handle(Call& call, const abi::DeregMrRequest& request) {
    const auto it = call.session->mrs.find(request.key);
    if (it == call.session->mrs.end()) return call.reply.fail(EINVAL);
    const auto remove = [&control = call.control, session = call.session, key = request.key, reply = call.reply]() {
        remove_mr(control, session, key, [reply]() mutable { reply.send(abi::DeregMrReply{}); });
    };
    if (!(it->second.region.access & access_flags::kMwBind)) return remove();
    // IBTA 10.6.7.2: a region to which windows are bound stays.
    auto in_use = std::make_shared<std::atomic<bool>>(false);
    call.control.call_all(
        call.session,
        [key = request.key, in_use](engine::Shard& shard, uint32_t) {
            const memory::Region* region = shard.keys().find(key);
            if (region != nullptr && region->windows != 0) *in_use = true;
            return true;
        },
        [session = call.session, key = request.key, in_use, remove, reply = call.reply]() mutable {
            if (*in_use) return reply.fail(EBUSY);
            if (!session->mrs.contains(key)) return reply.fail(EINVAL);
            remove();
        });
}

}  // namespace rocemu::control
