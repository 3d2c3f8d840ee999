// SPDX-License-Identifier: BSD-3-Clause
// Flow rules (ibv_create_flow(3)): the specifications behind the attributes become one key and mask, which the daemon
// compares with the frames that are not RoCE.
#include <cstring>
#include <new>

#include "base/flow_key.h"
#include "provider/flow.h"
#include "provider/real_verbs.h"

namespace rocemu::provider {
namespace {

struct Flow {
    ibv_flow base;
    std::byte foreign_pad[kForeignPad];

    static Flow* of(ibv_flow* flow) { return reinterpret_cast<Flow*>(flow); }
};

// One rule while its specifications are read. Fields of the filters are in network order already.
struct Rule {
    FlowKey key, mask;

    template <size_t N, typename Field>
    static void put(uint8_t (&to)[N], const Field& from) {
        static_assert(sizeof from == N);
        std::memcpy(to, &from, N);
    }
    void require_l3(uint8_t version) {
        key.l3 = version;
        mask.l3 = 0xff;
    }
    // What every specification of this kind fills, once for the values and once for the masks.
    static void fill(FlowKey& to, const ibv_flow_eth_filter& f) {
        put(to.dst_mac, f.dst_mac);
        put(to.src_mac, f.src_mac);
        put(to.ether_type, f.ether_type);
        put(to.vlan_tci, f.vlan_tag);
    }
    template <typename Filter>
    static void fill_ipv4(FlowKey& to, const Filter& f) {
        std::memcpy(to.src_ip, &f.src_ip, sizeof f.src_ip);
        std::memcpy(to.dst_ip, &f.dst_ip, sizeof f.dst_ip);
    }
    static void fill(FlowKey& to, const ibv_flow_ipv4_filter& f) { fill_ipv4(to, f); }
    static void fill(FlowKey& to, const ibv_flow_ipv4_ext_filter& f) {
        fill_ipv4(to, f);
        to.protocol = f.proto;
        to.traffic_class = f.tos;
        to.hop_limit = f.ttl;
        to.ip_flags = f.flags;
    }
    static void fill(FlowKey& to, const ibv_flow_ipv6_filter& f) {
        put(to.src_ip, f.src_ip);
        put(to.dst_ip, f.dst_ip);
        put(to.flow_label, f.flow_label);
        to.protocol = f.next_hdr;
        to.traffic_class = f.traffic_class;
        to.hop_limit = f.hop_limit;
    }
    static void fill(FlowKey& to, const ibv_flow_tcp_udp_filter& f) {
        put(to.src_port, f.src_port);
        put(to.dst_port, f.dst_port);
    }
    // False: the specification is shorter than its type says.
    template <typename Spec>
    bool take(const std::byte* at, size_t size) {
        if (size < sizeof(Spec)) return false;
        Spec spec;
        std::memcpy(&spec, at, sizeof spec);
        fill(key, spec.val);
        fill(mask, spec.mask);
        return true;
    }
    int add(uint32_t type, const std::byte* at, size_t size);
};

// 0 or errno.
int Rule::add(uint32_t type, const std::byte* at, size_t size) {
    bool whole = false;
    switch (type) {
        case IBV_FLOW_SPEC_ETH: whole = take<ibv_flow_spec_eth>(at, size); break;
        case IBV_FLOW_SPEC_IPV4:
            whole = take<ibv_flow_spec_ipv4>(at, size);
            require_l3(4);
            break;
        case IBV_FLOW_SPEC_IPV4_EXT:
            whole = take<ibv_flow_spec_ipv4_ext>(at, size);
            require_l3(4);
            break;
        case IBV_FLOW_SPEC_IPV6:
            whole = take<ibv_flow_spec_ipv6>(at, size);
            require_l3(6);
            break;
        case IBV_FLOW_SPEC_TCP:
        case IBV_FLOW_SPEC_UDP:
            whole = take<ibv_flow_spec_tcp_udp>(at, size);
            key.l4 = type == IBV_FLOW_SPEC_TCP ? FlowKey::kTcp : FlowKey::kUdp;
            mask.l4 = 0xff;
            break;
        default: return EOPNOTSUPP;  // tunnels, inner headers, actions
    }
    return whole ? 0 : EINVAL;
}

// All specifications, each as long as it says. 0 or errno.
int read_specs(const ibv_flow_attr& attr, Rule& rule) {
    const auto* at = reinterpret_cast<const std::byte*>(&attr + 1);
    for (uint32_t i = 0; i < attr.num_of_specs; ++i) {
        decltype(ibv_flow_spec::hdr) head;
        std::memcpy(&head, at, sizeof head);
        if (head.size < sizeof head) return EINVAL;
        if (const int rc = rule.add(head.type, at, head.size); rc != 0) return rc;
        at += head.size;
    }
    return 0;
}

}  // namespace

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
    if (attr->comp_mask != 0 || attr->port != 1 || qp->qp_type != IBV_QPT_RAW_PACKET)
        return fail_pointer<ibv_flow>(EINVAL);
    Rule rule;
    if (const int rc = read_specs(*attr, rule); rc != 0) return fail_pointer<ibv_flow>(rc);
    abi::CreateFlowRequest request;
    request.qpn = qp->qp_num;
    request.type = attr->type;
    request.priority = attr->priority;
    request.flags = attr->flags;
    static_assert(sizeof request.key == sizeof(FlowKey) && sizeof request.mask == sizeof(FlowKey));
    std::memcpy(request.key, &rule.key, sizeof rule.key);
    std::memcpy(request.mask, &rule.mask, sizeof rule.mask);
    auto* flow = new (std::nothrow) Flow{};
    if (flow == nullptr) return fail_pointer<ibv_flow>(ENOMEM);
    abi::CreateFlowReply reply;
    if (const int rc = Context::of(qp->context)->session->call(request, reply); rc != 0) {
        delete flow;
        return fail_pointer<ibv_flow>(rc);
    }
    flow->base.context = qp->context;
    flow->base.handle = reply.flow;
    return &flow->base;
}

int destroy_flow(ibv_flow* base) {
    if (const int rc = Context::of(base->context)->session->undo(abi::DestroyFlowRequest{base->handle}); rc != 0)
        return rc;
    delete Flow::of(base);
    return 0;
}

}  // namespace rocemu::provider
