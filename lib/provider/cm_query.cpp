// SPDX-License-Identifier: BSD-3-Clause
// See cm_query.h. Addresses and paths of an id are one message of the border, told in the form that was asked for.
#include "provider/cm_query.h"

#include <endian.h>

#include "provider/cm_convert.h"

namespace rocemu::provider {
namespace {

constexpr uint32_t kPathFlags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

// ibdev_index, the last field of some replies, is left alone: we have none, and the library then goes by the GUID.
constexpr size_t kRouteBytes = offsetof(rdma_ucm_query_route_resp, ibdev_index);
constexpr size_t kAddressBytes = offsetof(rdma_ucm_query_addr_resp, ibdev_index);

using Sockaddr = size_t (*)(const abi::CmQueryReply& in, bool source, void* out, size_t room);
size_t ip_sockaddr(const abi::CmQueryReply& in, bool source, void* out, size_t room) {
    return address_to(source ? in.source : in.destination, out, room);
}

int answer_addresses(const CmCommand& command, uint64_t response, const abi::CmQueryReply& reply, Sockaddr sockaddr) {
    rdma_ucm_query_addr_resp out{};
    out.node_guid = htobe64(reply.node_guid);
    out.port_num = static_cast<uint8_t>(reply.port_num);
    out.pkey = htobe16(reply.pkey);
    out.src_size = static_cast<uint16_t>(sockaddr(reply, true, &out.src_addr, sizeof out.src_addr));
    out.dst_size = static_cast<uint16_t>(sockaddr(reply, false, &out.dst_addr, sizeof out.dst_addr));
    return command.answer(response, out, kAddressBytes, kAddressBytes);
}

// As many paths as there is room for: there is one at most.
int answer_path(const CmCommand& command, uint64_t response, const abi::CmQueryReply& reply) {
    struct {
        uint32_t num_paths, reserved;
        ib_path_rec_data path;
    } out{};
    constexpr size_t kHead = offsetof(rdma_ucm_query_path_resp, path_data);
    static_assert(offsetof(decltype(out), path) == kHead);
    out.num_paths = reply.num_paths;
    out.path.flags = kPathFlags;
    path_record_to(reply, reinterpret_cast<std::byte*>(out.path.path_rec));
    const bool path = reply.num_paths > 0 && command.out_size >= sizeof out;
    return command.answer(response, out, kHead, path ? sizeof out : kHead);
}

}  // namespace

int query_cm_route(const CmCommand& command) {
    rdma_ucm_query in;
    if (!command.read(in)) return EINVAL;
    abi::CmQueryReply reply;
    if (const int rc = command.session.call(abi::CmQueryRequest{in.id}, reply)) return rc;
    rdma_ucm_query_route_resp out{};
    out.node_guid = htobe64(reply.node_guid);
    path_to(reply, out.ib_route[0]);
    address_to(reply.source, &out.src_addr, sizeof out.src_addr);
    address_to(reply.destination, &out.dst_addr, sizeof out.dst_addr);
    out.num_paths = reply.num_paths;
    out.port_num = static_cast<uint8_t>(reply.port_num);
    return command.answer(in.response, out, kRouteBytes, kRouteBytes);
}

int query_cm(const CmCommand& command) {
    rdma_ucm_query in;
    if (!command.read(in)) return EINVAL;
    if (in.option > RDMA_USER_CM_QUERY_GID) return EINVAL;
    abi::CmQueryReply reply;
    if (const int rc = command.session.call(abi::CmQueryRequest{in.id}, reply)) return rc;
    switch (in.option) {
        case RDMA_USER_CM_QUERY_ADDR:
            return answer_addresses(command, in.response, reply, ip_sockaddr);
        case RDMA_USER_CM_QUERY_GID:
            return answer_addresses(command, in.response, reply, ib_address_to);
        default:
            return answer_path(command, in.response, reply);
    }
}

}  // namespace rocemu::provider
