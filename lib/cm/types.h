// SPDX-License-Identifier: BSD-3-Clause
// The words in which lib/cm talks with its caller: owners, ids, status codes, paths, MADs to and from the wire.
// Who sends and receives MADs is the caller's business: it owns QP1 of each port, checks the ICRC, P_Key and Q_Key of
// what arrives there, and carries what poll_transmit gives out. Read IBTA volume 1, 13.5.3 (GSI) and 3.9.4.
#pragma once

#include <cstdint>

#include "cm/mad.h"
#include "wire/gid.h"
#include "wire/network_type.h"

namespace rocemu::cm {

// Whoever holds connections and listeners, usually a session. Opaque: chosen by the caller, never reused while alive.
using OwnerId = uint64_t;
// A connection, a UD address resolution, or a request for one: its local communication id. 0 is nobody.
using CmId = uint32_t;
// A bound port, perhaps listening. 0 is nobody.
using BindingId = uint32_t;

enum class Status : uint8_t {
    Ok,
    NotFound,         // no such id, or another owner's: the two are not distinguishable
    InvalidState,     // the command does not exist in this state
    InvalidArgument,  // private data too long, a number out of range, a port that cannot be bound
    NoResources,      // a capacity of this manager is used up
    QuotaExceeded,    // the owner's own limit
    AddressInUse,
    PermissionDenied,  // a privileged port
};

template <typename T>
struct Result {
    Status status = Status::Ok;
    T value{};

    [[nodiscard]] bool ok() const { return status == Status::Ok; }
};

// The way to a peer and back. `port` is the caller's number of the local device port: it is carried around and
// compared.
struct Path {
    uint32_t port = 0;
    wire::NetworkType network = wire::NetworkType::V2Ipv4;
    wire::Gid local_gid{};
    wire::Gid remote_gid{};
    uint32_t flow_label = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 64;
    uint8_t sl = 0;
    uint16_t pkey = 0xffff;
};

// To be sent as a UD SEND from QP1 of path.port to QP `remote_qpn` with Q_Key `qkey`; the payload is the 256 bytes.
struct TxMad {
    Path path{};
    uint32_t remote_qpn = kGsiQpn;
    uint32_t qkey = kGsiQkey;
    Mad mad{};
};

// Arrived at QP1. path.local_gid is what the packet was sent to, path.remote_gid its source.
struct RxMad {
    Path path{};
    uint64_t local_ca_guid = 0;  // of the device path.port belongs to
    uint32_t source_qpn = kGsiQpn;
    Mad mad{};
};

}  // namespace rocemu::cm
