// SPDX-License-Identifier: BSD-3-Clause
// ibv_query_device, ibv_query_device_ex and ibv_query_pkey. Figures come from the daemon; nothing is advertised that
// it does not hold.
#include <algorithm>
#include <cstring>

#include <endian.h>

#include "provider/flow.h"
#include "provider/objects.h"
#include "provider/query.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

// IB_UVERBS_DEVICE_ATOMIC_WRITE: only in the kernel's header, and in newer ones than some programs are built with.
constexpr uint64_t kCapAtomicWrite = uint64_t{1} << 40;

void fill(const abi::QueryDeviceReply& r, ibv_device_attr& a) {
    std::memset(&a, 0, sizeof a);
    static_assert(sizeof a.fw_ver >= sizeof r.fw_ver);
    std::memcpy(a.fw_ver, r.fw_ver, sizeof r.fw_ver);
    a.fw_ver[sizeof r.fw_ver - 1] = '\0';
    a.node_guid = htobe64(r.node_guid);
    a.sys_image_guid = htobe64(r.sys_image_guid);
    a.max_mr_size = r.max_mr_size;
    a.page_size_cap = r.page_size_cap;
    a.vendor_id = r.vendor_id;
    a.vendor_part_id = r.vendor_part_id;
    a.hw_ver = r.hw_ver;
    a.max_qp = static_cast<int>(r.max_qp);
    a.max_qp_wr = static_cast<int>(r.max_qp_wr);
    a.device_cap_flags = r.device_cap_flags;
    a.max_sge = static_cast<int>(r.max_sge);
    a.max_sge_rd = static_cast<int>(r.max_sge_rd);
    a.max_cq = static_cast<int>(r.max_cq);
    a.max_cqe = static_cast<int>(r.max_cqe);
    a.max_mr = static_cast<int>(r.max_mr);
    a.max_pd = static_cast<int>(r.max_pd);
    a.max_qp_rd_atom = static_cast<int>(r.max_qp_rd_atom);
    a.max_res_rd_atom = static_cast<int>(r.max_res_rd_atom);
    a.max_qp_init_rd_atom = static_cast<int>(r.max_qp_init_rd_atom);
    a.atomic_cap = static_cast<ibv_atomic_cap>(r.atomic_cap);
    a.max_mw = static_cast<int>(r.max_mw);
    a.max_mcast_grp = static_cast<int>(r.max_mcast_grp);
    a.max_mcast_qp_attach = static_cast<int>(r.max_mcast_qp_attach);
    a.max_total_mcast_qp_attach = static_cast<int>(r.max_mcast_grp * r.max_mcast_qp_attach);
    a.max_ah = static_cast<int>(r.max_ah);
    a.max_raw_ethy_qp = r.raw_packets != 0 ? a.max_qp : 0;
    a.max_srq = static_cast<int>(r.max_srq);
    a.max_srq_wr = static_cast<int>(r.max_srq_wr);
    a.max_srq_sge = static_cast<int>(r.max_srq_sge);
    a.max_pkeys = static_cast<uint16_t>(r.max_pkeys);
    a.local_ca_ack_delay = 16;  // 4.096 us * 2^16: what adapters of this kind say
    a.phys_port_cnt = 1;
}

int ask(Context& c, abi::QueryDeviceReply& reply) {
    // A forked child has no session, but the device is what it was.
    if (c.session->state() != SessionState::Forgotten) return c.session->call(abi::QueryDeviceRequest{c.id}, reply);
    reply = c.attributes;
    return 0;
}

// What there is for raw packet QPs: no VLAN stripping, no FCS, no checksums, receive hashing.
void fill_raw(ibv_device_attr_ex& full) {
    full.rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
    full.rss_caps.max_rwq_indirection_tables = full.max_wq_type_rq = static_cast<uint32_t>(full.orig_attr.max_qp);
    full.rss_caps.max_rwq_indirection_table_size = abi::kMaxRssQueues;
    full.rss_caps.rx_hash_fields_mask = kRxHashFields;
    full.rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
}

}  // namespace

int query_device(ibv_context* context, ibv_device_attr* attr) {
    abi::QueryDeviceReply reply;
    const int rc = ask(*Context::of(context), reply);
    if (rc == 0) fill(reply, *attr);
    return rc;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    size_t attr_size) {
    if (input != nullptr && input->comp_mask != 0) return EINVAL;
    if (attr_size < sizeof attr->orig_attr) return EINVAL;
    ibv_device_attr_ex full{};
    abi::QueryDeviceReply reply;
    if (const int rc = ask(*Context::of(context), reply); rc != 0) return rc;
    fill(reply, full.orig_attr);
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags | kCapAtomicWrite;
    full.completion_timestamp_mask = UINT64_MAX;  // CQEs carry CLOCK_MONOTONIC in nanoseconds
    full.hca_core_clock = 1'000'000;              // kHz
    full.phys_port_cnt_ex = 1;
    full.max_dm_size = kMaxDmBytes;
    full.cq_mod_caps = {UINT16_MAX, UINT16_MAX};
    full.packet_pacing_caps = {1, abi::kMaxRateLimit,
                               1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD | 1u << IBV_QPT_XRC_SEND |
                                   (reply.raw_packets != 0 ? 1u << IBV_QPT_RAW_PACKET : 0)};
    // Registration pins nothing, so memory may come and go under any region.
    full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    full.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                                   IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                                   IBV_ODP_SUPPORT_SRQ_RECV;
    full.xrc_odp_caps = full.odp_caps.per_transport_caps.rc_odp_caps & ~IBV_ODP_SUPPORT_RECV;
    full.odp_caps.per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
    full.odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    if (reply.raw_packets != 0) fill_raw(full);
    // The application may be built with a longer structure than ours, or with a shorter one.
    std::memset(attr, 0, attr_size);
    std::memcpy(attr, &full, std::min(attr_size, sizeof full));
    return 0;
}

}  // namespace rocemu::provider

using namespace rocemu::provider;

ROCEMU_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
    if (!ours(context)) return real().ibv_query_device(context, attr);
    return query_device(context, attr);
}

// One partition: the default one, full membership.
ROCEMU_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
    if (!ours(context)) return real().ibv_query_pkey(context, port, index, pkey);
    if (port != 1 || index != 0) return fail_minus_one(EINVAL);
    *pkey = htobe16(0xffff);
    return 0;
}
