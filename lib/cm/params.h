// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the commands of CmManager. Spans are read during the call only.
// Responder resources and initiator depth are always from the point of view of the side that is named: in parameters
// and events "responder_resources" is what this end offers or is asked for. Read IBTA volume 1, 12.7.
#pragma once

#include <optional>
#include <span>

#include "cm/ip_header.h"
#include "cm/reject_reason.h"
#include "cm/service_id.h"
#include "cm/sidr_rep.h"
#include "cm/types.h"

namespace rocemu::cm {

// IBTA 12.7: how the REQ names the transport of the QP.
enum class Transport : uint8_t { Rc = 0, Uc = 1, Xrc = 3 };

struct BindParams {
    PortSpace port_space = PortSpace::Tcp;
    wire::Gid address{};  // :: any; ::ffff:0.0.0.0 any IPv4; else this one
    uint16_t port = 0;    // 0: an ephemeral one
    bool reuse_address = false;
    bool v6_only = false;  // :: does not take IPv4 requests
    // Of the QPs behind a listener, which takes a REQ for no other; nullopt: datagrams, which a SIDR_REQ asks for.
    std::optional<Transport> transport = Transport::Rc;
    uint64_t cookie = 0;  // comes back in events
};

// Whom to reach: the address pair of the IP header and the service.
struct Target {
    PortSpace port_space = PortSpace::Tcp;
    IpHeader ip{};
    uint16_t destination_port = 0;
};

struct ConnectParams {
    Target target{};
    Path path{};
    uint64_t local_ca_guid = 0;
    uint64_t cookie = 0;
    Transport transport = Transport::Rc;
    uint32_t local_qpn = 0;
    uint32_t starting_psn = 0;
    uint32_t qkey = 0;
    uint8_t responder_resources = 0;
    uint8_t initiator_depth = 0;
    bool flow_control = false;
    uint8_t retry_count = 7;      // 0..7
    uint8_t rnr_retry_count = 7;  // 0..7
    bool srq = false;
    uint8_t path_mtu = 3;                          // 1 is 256 ... 5 is 4096
    uint8_t packet_lifetime = 16;                  // 4.096 us * 2^n
    std::span<const std::byte> private_data = {};  // up to 56 bytes
};

struct AcceptParams {
    uint64_t cookie = 0;
    uint32_t local_qpn = 0;
    uint32_t starting_psn = 0;
    uint32_t qkey = 0;
    uint8_t responder_resources = 0;
    uint8_t initiator_depth = 0;
    bool flow_control = false;
    uint8_t rnr_retry_count = 7;
    bool srq = false;
    std::span<const std::byte> private_data = {};  // up to 196 bytes
};

struct RejectParams {
    RejectReason reason = RejectReason::ConsumerDefined;
    std::span<const std::byte> info = {};          // up to 72 bytes
    std::span<const std::byte> private_data = {};  // up to 148 bytes
};

struct SidrRequestParams {
    Target target{};
    Path path{};
    uint64_t cookie = 0;
    uint8_t packet_lifetime = 16;
    std::span<const std::byte> private_data = {};  // up to 180 bytes
};

struct SidrReplyParams {
    SidrStatus status = SidrStatus::Valid;
    uint32_t qpn = 0;
    uint32_t qkey = 0;
    std::span<const std::byte> private_data = {};  // up to 136 bytes
};

}  // namespace rocemu::cm
