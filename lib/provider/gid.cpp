// SPDX-License-Identifier: BSD-3-Clause
// The GID table as libibverbs shows it. An empty entry is ENODATA for ibv_query_gid_ex, and a zero GID for the older
// ibv_query_gid, whose callers walk the table by index.
#include <cstring>

#include <algorithm>

#include "provider/gid.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

ibv_gid_entry entry_of(const abi::GidRecord& record) {
    ibv_gid_entry e{};
    std::memcpy(e.gid.raw, record.gid, sizeof e.gid.raw);
    e.gid_index = record.index;
    e.port_num = 1;
    e.gid_type = record.type;  // GidType's values are those of ibv_gid_type
    e.ndev_ifindex = record.ndev_ifindex;
    return e;
}
static_assert(static_cast<uint32_t>(abi::GidType::RoceV1) == IBV_GID_TYPE_ROCE_V1);
static_assert(static_cast<uint32_t>(abi::GidType::RoceV2) == IBV_GID_TYPE_ROCE_V2);

// 0, ENODATA: the entry is empty, EINVAL: there is none.
int query_one(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry& out) {
    Context* c = Context::of(context);
    if (port != 1) return EINVAL;
    abi::QueryGidReply reply;
    if (const int rc = c->session->call(abi::QueryGidRequest{c->id, port, index}, reply); rc != 0) return rc;
    if (reply.count == 0 || reply.gids[0].index != index) {
        // Behind the last entry in use; the port says how long the table is.
        abi::QueryPortReply table;
        if (const int rc = c->session->call(abi::QueryPortRequest{c->id, port}, table); rc != 0) return rc;
        return index < table.gid_tbl_len ? ENODATA : EINVAL;
    }
    if (reply.gids[0].type == 0) return ENODATA;
    out = entry_of(reply.gids[0]);
    return 0;
}

}  // namespace

int find_gid(Context& context, const ibv_gid& gid, uint32_t type, uint32_t& index) {
    for (uint32_t next = 0, total = 1; next < total;) {
        abi::QueryGidReply reply;
        if (const int rc = context.session->call(abi::QueryGidRequest{context.id, 1, next}, reply); rc != 0) return rc;
        const uint32_t count = std::min(reply.count, abi::kGidsPerReply);
        if (count == 0) break;
        total = reply.total;
        next += count;
        for (uint32_t i = 0; i < count; ++i) {
            if (reply.gids[i].type != type || std::memcmp(reply.gids[i].gid, gid.raw, sizeof gid.raw) != 0) continue;
            index = reply.gids[i].index;
            return 0;
        }
    }
    return ENOENT;
}

}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
    if (!ours(context)) return real().ibv_query_gid(context, port, index, gid);
    ibv_gid_entry entry{};
    const int rc = index < 0 ? EINVAL : query_one(context, port, static_cast<uint32_t>(index), entry);
    if (rc != 0 && rc != ENODATA) return fail_minus_one(rc);
    *gid = entry.gid;
    return 0;
}

ROCEMU_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                                    uint32_t flags, size_t entry_size) {
    if (!ours(context)) return real()._ibv_query_gid_ex(context, port, index, entry, flags, entry_size);
    if (flags != 0) return EOPNOTSUPP;
    if (entry_size < sizeof *entry) return EINVAL;
    ibv_gid_entry found{};
    if (const int rc = query_one(context, port, index, found); rc != 0) return rc;
    std::memset(entry, 0, entry_size);
    *entry = found;
    return 0;
}

// The number of entries that are not empty, or a negative errno value.
ROCEMU_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries,
                                           uint32_t flags, size_t entry_size) {
    if (!ours(context)) return real()._ibv_query_gid_table(context, entries, max_entries, flags, entry_size);
    if (flags != 0) return -EOPNOTSUPP;
    if (entry_size < sizeof *entries) return -EINVAL;
    Context* c = Context::of(context);
    auto* out = reinterpret_cast<std::byte*>(entries);
    size_t filled = 0;
    uint32_t next = 0, total = 1;
    while (next < total) {
        abi::QueryGidReply reply;
        if (const int rc = c->session->call(abi::QueryGidRequest{c->id, 1, next}, reply); rc != 0) return -rc;
        const uint32_t count = std::min(reply.count, abi::kGidsPerReply);
        if (count == 0) break;
        total = reply.total;
        for (uint32_t i = 0; i < count; ++i) {
            if (reply.gids[i].type == 0) continue;
            if (filled == max_entries) return -EINVAL;  // ibv_query_gid_table(3)
            const ibv_gid_entry e = entry_of(reply.gids[i]);
            std::memset(out, 0, entry_size);
            std::memcpy(out, &e, sizeof e);
            out += entry_size;
            ++filled;
        }
        next += count;
    }
    return static_cast<ssize_t>(filled);
}

ROCEMU_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index, int* type) {
    if (!ours(context)) return real().ibv_query_gid_type(context, port, index, type);
    ibv_gid_entry entry{};
    const int rc = query_one(context, port, index, entry);
    if (rc != 0 && rc != ENODATA) return fail_minus_one(rc);
    *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? kGidTypeSysfsRoceV2 : kGidTypeSysfsIbRoceV1;
    return 0;
}
