// SPDX-License-Identifier: BSD-3-Clause
// Device attributes. Numbers with names of the verbs interface are those of <infiniband/verbs.h>; speeds and widths
// follow the table Linux uses for Ethernet (ib_get_eth_speed).
#include "control/device_attributes.h"

#include <algorithm>
#include <cstdio>

#include "net/iboe_mtu.h"

namespace rocemu::control {
namespace {

// A locally administered OUI: nobody's NIC, so that no program takes us for hardware it has a driver for.
constexpr uint32_t kVendorId = 0x02524f;
constexpr uint32_t kVendorPartId = 1;

constexpr uint32_t kCapPortActiveEvent = 1 << 10, kCapSysImageGuid = 1 << 11, kCapRcRnrNakGen = 1 << 12,
                   kCapSrqResize = 1 << 13, kCapMemWindow = 1 << 17, kCapXrc = 1 << 20, kCapMemMgtExtensions = 1 << 21,
                   kCapMemWindowType2B = 1 << 24, kCapManagedFlowSteering = 1 << 29;
constexpr uint32_t kPortCmSupported = 1 << 16, kPortIpBasedGids = 1 << 26;
constexpr uint32_t kStateDown = 1, kStateActive = 4;
constexpr uint32_t kPhysDisabled = 3, kPhysLinkUp = 5;
constexpr uint32_t kLinkLayerEthernet = 2;
constexpr uint32_t kAtomicHca = 1;

struct Speed {
    uint32_t mbps, width, speed;
};
constexpr uint32_t k1x = 1, k4x = 2, k2x = 16, kSdr = 1, kDdr = 2, kFdr10 = 8, kEdr = 32, kHdr = 64, kNdr = 128;
constexpr Speed kSpeeds[] = {{1000, k1x, kSdr},   {10000, k1x, kFdr10}, {20000, k4x, kDdr},
                             {25000, k1x, kEdr},  {40000, k4x, kFdr10}, {50000, k2x, kEdr},
                             {100000, k4x, kEdr}, {200000, k4x, kHdr},  {0xffffffff, k4x, kNdr}};

}  // namespace

abi::QueryDeviceReply device_attributes(const Device& device, const config::LimitOptions& limits, uint32_t shards) {
    abi::QueryDeviceReply r;
    const auto u32 = [](int64_t v) { return static_cast<uint32_t>(v); };
    r.node_guid = r.sys_image_guid = device.node_guid();
    r.max_mr_size = ~uint64_t{0};
    r.page_size_cap = ~uint64_t{0xfff};  // every page size from 4 KiB on: pages mean nothing to us
    r.max_qp = u32(limits.max_qp);
    r.max_qp_wr = u32(limits.max_qp_wr);
    r.max_sge = r.max_sge_rd = u32(limits.max_sge);
    r.max_inline = u32(limits.max_inline);
    r.max_cq = u32(limits.max_cq);
    r.max_cqe = u32(limits.max_cqe);
    r.max_mr = u32(limits.max_mr);
    r.max_srq = u32(limits.max_srq);
    r.max_srq_wr = u32(limits.max_srq_wr);
    r.max_srq_sge = u32(limits.max_sge);
    r.max_mw = u32(limits.max_mw);
    r.max_pd = u32(limits.max_pd);
    r.max_ah = u32(limits.max_ah);
    r.max_mcast_grp = kMaxGroupsPerSession;
    r.max_mcast_qp_attach = kMaxGroupsPerQp;
    r.max_qp_rd_atom = r.max_qp_init_rd_atom = u32(limits.max_rd_atomic);
    r.max_res_rd_atom = u32(std::min<int64_t>(limits.max_rd_atomic * limits.max_qp, 0x7fffffff));
    r.vendor_id = kVendorId;
    r.vendor_part_id = kVendorPartId;
    r.hw_ver = 1;
    r.device_cap_flags = kCapPortActiveEvent | kCapSysImageGuid | kCapRcRnrNakGen | kCapSrqResize | kCapMemWindow |
                         kCapXrc | kCapMemMgtExtensions | kCapMemWindowType2B;
    r.atomic_cap = kAtomicHca;
    r.max_pkeys = 1;
    r.raw_packets = device.raw_packets() ? 1 : 0;
    if (device.raw_packets()) r.device_cap_flags |= kCapManagedFlowSteering;
    r.shards = shards;
    std::snprintf(r.fw_ver, sizeof r.fw_ver, "%s", ROCEMU_VERSION);
    return r;
}

abi::QueryPortReply port_attributes(const Device& device) {
    abi::QueryPortReply r;
    const bool up = device.link_up();
    r.state = up ? kStateActive : kStateDown;
    r.phys_state = up ? kPhysLinkUp : kPhysDisabled;
    r.max_mtu = 5;
    r.active_mtu = device.active_mtu();
    r.gid_tbl_len = device.gids().capacity();
    r.port_cap_flags = kPortCmSupported | kPortIpBasedGids;
    r.max_msg_sz = 1u << 31;
    r.pkey_tbl_len = 1;
    const uint32_t mbps = device.speed_mbps() == 0 ? 100000 : device.speed_mbps();
    for (const Speed& s : kSpeeds) {
        if (mbps > s.mbps) continue;
        r.active_width = s.width;
        r.active_speed = s.speed;
        break;
    }
    r.link_layer = kLinkLayerEthernet;
    r.netdev_ifindex = device.ifindex();
    return r;
}

abi::QueryGidReply gid_entries(const Device& device, uint32_t first) {
    abi::QueryGidReply r;
    const auto& gids = device.gids();
    r.total = gids.capacity();
    for (uint32_t i = first; i < gids.capacity() && r.count < abi::kGidsPerReply; ++i) {
        auto& record = r.gids[r.count++];
        record.index = i;
        const auto* entry = gids.at(i);
        if (!entry) continue;  // type 0: empty
        std::copy(entry->gid.raw.begin(), entry->gid.raw.end(), record.gid);
        record.type =
            static_cast<uint32_t>(entry->version == net::RoceVersion::V1 ? abi::GidType::RoceV1 : abi::GidType::RoceV2);
        record.ndev_ifindex = device.netdev_of(*entry).index;
    }
    return r;
}

}  // namespace rocemu::control
