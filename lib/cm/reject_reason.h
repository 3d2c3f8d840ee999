// SPDX-License-Identifier: BSD-3-Clause
// RejectReason: why a connection was refused. Read IBTA volume 1, 12.6.7 (rejection reasons).
// The numbers are what librdmacm shows as the status of RDMA_CM_EVENT_REJECTED.
#pragma once

#include <cstdint>

namespace rocemu::cm {

enum class RejectReason : uint16_t {
    NoQp = 1,
    NoEec = 2,
    NoResources = 3,
    Timeout = 4,
    Unsupported = 5,
    InvalidCommId = 6,
    InvalidCommInstance = 7,
    InvalidServiceId = 8,
    InvalidTransportType = 9,
    StaleConnection = 10,
    RdcNotExist = 11,
    InvalidGid = 12,
    InvalidLid = 13,
    InvalidSl = 14,
    InvalidTrafficClass = 15,
    InvalidHopLimit = 16,
    InvalidPacketRate = 17,
    InvalidAltGid = 18,
    InvalidAltLid = 19,
    InvalidAltSl = 20,
    InvalidAltTrafficClass = 21,
    InvalidAltHopLimit = 22,
    InvalidAltPacketRate = 23,
    PortAndCmRedirect = 24,
    PortRedirect = 25,
    InvalidMtu = 26,
    InsufficientResponderResources = 27,
    ConsumerDefined = 28,
    InvalidRnrRetry = 29,
    DuplicateLocalCommId = 30,
    InvalidClassVersion = 31,
    InvalidFlowLabel = 32,
    InvalidAltFlowLabel = 33,
};

}  // namespace rocemu::cm
