// SPDX-License-Identifier: BSD-3-Clause
// From an address handle as verbs gives it (GRH fields, SGID index) to the address headers of packets.
// Read IBTA volume 1, 11.2.2.1 (address vector), annex A17.3 and the ibv_modify_qp man page.
#pragma once

#include "net/gid_table.h"
#include "wire/build.h"

namespace rocemu::net {

// The GRH part of an address handle.
struct AddressRequest {
    bool is_global = false;
    wire::Gid dgid;
    uint32_t sgid_index = 0;
    uint32_t flow_label = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint8_t sl = 0;
    bool connected = true;  // RC, UC, XRC: the route decides the hop limit
    uint32_t local_qpn = 0, remote_qpn = 0;
};

enum class AddressError : uint8_t {
    None,
    NoGrh,          // RoCE addresses are GIDs: is_global must be set
    NoSuchSgid,     // SGID index past the end or an empty entry
    FamilyDiffers,  // IPv4 source with IPv6 destination or the other way round
    BadDgid,        // zero, or a group for a connected QP
    BadSl,          // annex A17: 8 to 15 are invalid
};
[[nodiscard]] const char* text_of(AddressError error);

// Everything but the two MAC addresses. `out` is complete apart from these if the result is None.
[[nodiscard]] AddressError assemble(const GidTable& gids, const AddressRequest& request, wire::AddressVector& out);

}  // namespace rocemu::net
