// SPDX-License-Identifier: BSD-3-Clause
// Messages of the rdma_cm device: what the provider makes of the commands that librdmacm writes to
// /dev/infiniband/rdma_cm. Numbers of events, port spaces, options and QP types are those of <rdma/rdma_cma.h> and
// <rdma/rdma_user_cm.h>. Part of messages.h.
#pragma once

#include <cstdint>

namespace rocemu::abi {

// A socket address: family 0 is none given, 4 has its address as ::ffff:a.b.c.d.
struct CmAddress {
    uint8_t address[16] = {};
    uint32_t scope_id = 0;
    uint16_t port = 0;  // host order
    uint16_t family = 0;  // 0, 4, 6
};

inline constexpr uint32_t kCmPrivateData = 256;
struct CmConnParam {
    uint32_t qp_num = 0, qkey = 0;
    uint8_t private_data[kCmPrivateData] = {};
    uint8_t private_data_len = 0;
    uint8_t srq = 0, responder_resources = 0, initiator_depth = 0, flow_control = 0, retry_count = 0;
    uint8_t rnr_retry_count = 0;
    uint8_t valid = 0;  // accept: 0 is the active side's confirmation
};

// An event channel: one fd, the daemon's end of a SEQPACKET pair. A one-byte record on it says that there are events;
// the receiver of the record asks for one with CmGetEvent and gets another record if there are more. When the
// application's end is closed, the channel and its ids are destroyed. `withdrawn` in a reply: no event waits on the channel
// of that number any more, and the application takes the record that told of one from its socket (0: no channel's).
struct CmOpenChannelRequest {};
struct CmOpenChannelReply { uint32_t channel = 0; };

struct CmCreateIdRequest { uint64_t uid = 0; uint32_t channel = 0; uint16_t port_space = 0; uint8_t qp_type = 0; uint8_t reserved = 0; };
struct CmCreateIdReply { uint32_t id = 0; };
struct CmDestroyIdRequest { uint32_t id = 0; };
struct CmDestroyIdReply { uint32_t events_reported = 0; uint32_t withdrawn = 0; };
struct CmBindRequest { uint32_t id = 0; CmAddress address; };
struct CmBindReply {};
struct CmResolveAddressRequest { uint32_t id = 0; uint32_t timeout_ms = 0; CmAddress source, destination; };
struct CmResolveAddressReply {};
struct CmResolveRouteRequest { uint32_t id = 0; uint32_t timeout_ms = 0; };
struct CmResolveRouteReply {};
struct CmQueryRequest { uint32_t id = 0; };
struct CmQueryReply {
    uint64_t node_guid = 0;  // host order; 0: the id has no device yet
    CmAddress source, destination;
    uint8_t sgid[16] = {}, dgid[16] = {};
    uint32_t num_paths = 0;
    uint16_t port_num = 0, port_space = 0;  // port space: enum rdma_port_space
    uint32_t flow_label = 0;
    uint16_t pkey = 0;
    uint8_t hop_limit = 0, traffic_class = 0, mtu = 0, rate = 0, packet_lifetime = 0, reserved = 0;
};
struct CmConnectRequest { uint32_t id = 0; CmConnParam param; };
struct CmConnectReply {};
struct CmListenRequest { uint32_t id = 0; uint32_t backlog = 0; };
struct CmListenReply {};
struct CmAcceptRequest { uint64_t uid = 0; uint32_t id = 0; CmConnParam param; };
struct CmAcceptReply {};
struct CmRejectRequest { uint32_t id = 0; uint32_t reason = 0; uint32_t private_data_len = 0; uint8_t private_data[kCmPrivateData] = {}; };
struct CmRejectReply {};
struct CmDisconnectRequest { uint32_t id = 0; };
struct CmDisconnectReply {};
struct CmInitQpAttrRequest { uint32_t id = 0; uint32_t state = 0; };
struct CmInitQpAttrReply { uint32_t mask = 0; QpAttrRecord attr; };

struct CmAddressHandle {
    uint8_t dgid[16] = {};
    uint32_t flow_label = 0;
    uint8_t sgid_index = 0, hop_limit = 0, traffic_class = 0, sl = 0;
    uint8_t is_global = 0, port_num = 0, reserved[2] = {};
};
// EAGAIN: there is none.
struct CmGetEventRequest { uint32_t channel = 0; };
struct CmGetEventReply {
    uint64_t uid = 0;
    uint32_t id = 0;  // of a connection request: the new id
    uint32_t event = 0;
    int32_t status = 0;
    uint32_t datagram = 0;  // 1: ah is valid, and of conn only qp_num, qkey and the private data
    CmConnParam conn;
    CmAddressHandle ah;
};

inline constexpr uint32_t kCmOptionBytes = 16;
struct CmSetOptionRequest { uint32_t id = 0; uint32_t level = 0; uint32_t option = 0; uint32_t length = 0; uint8_t value[kCmOptionBytes] = {}; };
struct CmSetOptionReply {};
struct CmNotifyRequest { uint32_t id = 0; uint32_t event = 0; };
struct CmNotifyReply {};
struct CmJoinRequest { uint64_t uid = 0; uint32_t id = 0; uint32_t flags = 0; CmAddress address; };
struct CmJoinReply { uint32_t id = 0; };  // of the membership
struct CmLeaveRequest { uint32_t id = 0; };
struct CmLeaveReply { uint32_t events_reported = 0; uint32_t withdrawn = 0; };
struct CmMigrateRequest { uint32_t id = 0; uint32_t channel = 0; };
struct CmMigrateReply { uint32_t events_reported = 0; uint32_t withdrawn = 0; };

}  // namespace rocemu::abi
