// SPDX-License-Identifier: BSD-3-Clause
// Event: what a CmManager tells an owner. Kinds and fields are those that librdmacm's events are made from.
#pragma once

#include "cm/params.h"
#include "cm/private_data.h"
#include "cm/state.h"

namespace rocemu::cm {

enum class EventKind : uint8_t {
    ConnectRequest,   // REQ at a listener; answer with accept or reject. `binding` and its cookie tell which
    ConnectResponse,  // REP: bring the QP to RTS, then confirm (or reject)
    Established,      // RTU at the passive side, or data instead of it
    Rejected,         // REJ; status = RejectReason, info valid
    Unreachable,      // no answer after all retries; status = kStatusTimedOut
    Disconnected,     // DREQ (answer with disconnect), or the answer to ours; status kStatusTimedOut if there was none
    TimewaitExit,     // the QP number may be used again
    SidrRequest,      // SIDR_REQ at a UDP listener; answer with sidr_reply
    SidrResult,       // status = SidrStatus, or kStatusTimedOut; remote_qpn and qkey valid when 0
};

inline constexpr int32_t kStatusTimedOut = -110;  // as librdmacm reports it: -ETIMEDOUT

// What both ends agreed on; filled as far as it is known in the current state.
struct ConnectionInfo {
    State state = State::Closed;
    bool active = false;
    Transport transport = Transport::Rc;
    PortSpace port_space = PortSpace::Tcp;
    uint16_t service_port = 0;  // the listener's
    IpHeader ip{};              // as in the REQ: source is the active side
    Path path{};
    uint64_t remote_ca_guid = 0;
    uint32_t local_qpn = 0, remote_qpn = 0;
    uint32_t local_psn = 0, remote_psn = 0;  // starting PSNs that we, the peer named: of our RQ, of our SQ
    uint32_t qkey = 0;                       // the peer's
    uint8_t responder_resources = 0;         // READs and atomics this end must serve at once
    uint8_t initiator_depth = 0;             // READs and atomics this end may have under way
    bool flow_control = false;
    uint8_t retry_count = 0;
    uint8_t rnr_retry_count = 0;  // the one the peer asked us to use
    bool srq = false;             // the peer's QP uses an SRQ
    uint8_t path_mtu = 0;
    uint8_t packet_lifetime = 0;
    uint8_t ack_timeout = 0;  // local ACK timeout for the QP
};

struct Event {
    OwnerId owner = 0;
    CmId id = 0;
    BindingId binding = 0;  // ConnectRequest, SidrRequest
    uint64_t cookie = 0;    // of the connection; of the binding for ConnectRequest and SidrRequest
    EventKind kind = EventKind::ConnectRequest;
    int32_t status = 0;
    ConnectionInfo info;
    uint8_t reject_info_size = 0;
    PrivateData<72> reject_info{};
    uint16_t private_data_size = 0;  // what the message has room for, without the IP header
    PrivateData<kMaxPrivateData> private_data{};
};

}  // namespace rocemu::cm
