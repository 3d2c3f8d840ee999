// SPDX-License-Identifier: BSD-3-Clause
// See gsi.h.
#include "engine/gsi.h"

#include <algorithm>

#include "engine/device.h"
#include "engine/notifier.h"

namespace rocemu::engine {

using wire::DropReason;

DropReason take_mad(const Device& device, const wire::PacketView& packet, Notifier& notifier) {
    if (packet.opcode() != wire::Opcode::UdSendOnly) return DropReason::QpTransport;
    const wire::Deth deth = packet.deth();
    if (deth.qkey != kGsiQkey) return DropReason::QkeyMismatch;
    if (packet.payload.size() != kMadSize) return DropReason::PayloadLength;
    if (const DropReason reason = device.refusal(packet); reason != DropReason::None) return reason;
    ReceivedMad mad;
    mad.device = device.setup.id;
    mad.source_qpn = deth.src_qp;
    mad.network = packet.network;
    mad.local = packet.dst_gid;
    mad.remote = packet.src_gid;
    mad.pkey = packet.bth.pkey;
    mad.traffic_class = packet.traffic_class;
    std::copy(packet.payload.begin(), packet.payload.end(), mad.mad.begin());
    return notifier.post(mad) ? DropReason::None : DropReason::QueueFull;
}

}  // namespace rocemu::engine
