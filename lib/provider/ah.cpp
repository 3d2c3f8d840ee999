// SPDX-License-Identifier: BSD-3-Clause
// Address handles, and the way back to the sender of a datagram: libibverbs reads the headers in front of a UD receive,
// looks for its own address in the GID table and makes a handle for the other end (ibv_create_ah_from_wc(3)).
#include "provider/ah.h"

#include <cstring>
#include <new>

#include "base/bytes.h"
#include "provider/gid.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

constexpr size_t kIpv4Offset = 20;    // in the 40 bytes before the payload
constexpr uint8_t kNextHeaderBth = 0x1b;  // RoCE v1
constexpr uint32_t kFlowLabel = 0xfffff;

abi::CreateAhRequest request_of(const ibv_pd* pd, const ibv_ah_attr& attr) {
    abi::CreateAhRequest r;
    r.pd = pd->handle;
    r.flow_label = attr.grh.flow_label;
    std::memcpy(r.dgid, attr.grh.dgid.raw, sizeof r.dgid);
    r.sgid_index = attr.grh.sgid_index;
    r.hop_limit = attr.grh.hop_limit;
    r.traffic_class = attr.grh.traffic_class;
    r.sl = attr.sl;
    r.is_global = attr.is_global;
    r.port_num = attr.port_num;
    return r;
}

// Version 4 with five words of header and a right checksum: the first 20 bytes of the area say nothing then.
bool is_ipv4(const std::byte* ip) {
    if (load_be<uint8_t>(ip) != 0x45) return false;
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += load_be<uint16_t>(ip + i);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum == 0xffff;
}

ibv_gid mapped(const std::byte* address) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, address, 4);
    return gid;
}

int init_from_wc(Context& context, const ibv_wc& wc, const ibv_grh* grh, ibv_ah_attr& attr) {
    attr = {};
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = 1;
    if ((wc.wc_flags & IBV_WC_GRH) == 0) return 0;
    const auto* area = reinterpret_cast<const std::byte*>(grh);
    const std::byte* ip = area + kIpv4Offset;
    ibv_gid own;
    uint32_t type = IBV_GID_TYPE_ROCE_V2;
    attr.is_global = 1;
    if (is_ipv4(ip)) {
        attr.grh.dgid = mapped(ip + 12);
        own = mapped(ip + 16);
        attr.grh.traffic_class = load_be<uint8_t>(ip + 1);
        attr.grh.hop_limit = load_be<uint8_t>(ip + 8);
    } else {
        const auto word = load_be<uint32_t>(area);
        if (word >> 28 != 6) return EPROTONOSUPPORT;
        std::memcpy(attr.grh.dgid.raw, area + 8, sizeof attr.grh.dgid.raw);
        std::memcpy(own.raw, area + 24, sizeof own.raw);
        attr.grh.flow_label = word & kFlowLabel;
        attr.grh.traffic_class = static_cast<uint8_t>(word >> 20);
        attr.grh.hop_limit = load_be<uint8_t>(area + 7);
        if (load_be<uint8_t>(area + 6) == kNextHeaderBth) type = IBV_GID_TYPE_ROCE_V1;
    }
    uint32_t index = 0;
    if (const int rc = find_gid(context, own, type, index); rc != 0) return rc;
    attr.grh.sgid_index = static_cast<uint8_t>(index);
    return 0;
}

}  // namespace
}  // namespace rocemu::provider

using namespace rocemu;
using namespace rocemu::provider;

ROCEMU_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
    if (!ours(pd->context)) return real().ibv_create_ah(pd, attr);
    auto* ah = new (std::nothrow) Ah{};
    if (ah == nullptr) return fail_pointer<ibv_ah>(ENOMEM);
    abi::CreateAhReply reply;
    if (const int rc = Pd::of(pd)->context().session->call(request_of(pd, *attr), reply); rc != 0) {
        delete ah;
        return fail_pointer<ibv_ah>(rc);
    }
    ah->base.context = pd->context;
    ah->base.pd = pd;
    ah->base.handle = reply.ah;
    return &ah->base;
}

ROCEMU_EXPORT int ibv_destroy_ah(ibv_ah* base) {
    if (!ours(base->context)) return real().ibv_destroy_ah(base);
    const int rc = Context::of(base->context)->session->undo(abi::DestroyAhRequest{base->handle});
    if (rc == 0) delete Ah::of(base);
    return rc;
}

ROCEMU_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr) {
    if (!ours(context)) return real().ibv_init_ah_from_wc(context, port, wc, grh, attr);
    const int rc = port != 1 ? EINVAL : init_from_wc(*Context::of(context), *wc, grh, *attr);
    return rc == 0 ? 0 : fail_minus_one(rc);
}

ROCEMU_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
    if (!ours(pd->context)) return real().ibv_create_ah_from_wc(pd, wc, grh, port);
    ibv_ah_attr attr;
    if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
    return ibv_create_ah(pd, &attr);
}
