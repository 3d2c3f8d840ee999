// SPDX-License-Identifier: BSD-3-Clause
// The CM MADs of a recorded file, in order, each with the addresses of its packet.
#pragma once

#include <algorithm>
#include <vector>

#include "cm/types.h"
#include "support/pcap.h"
#include "wire/parse.h"

namespace rocemu::test {

struct RecordedMad {
    cm::RxMad rx;  // as its receiver sees it
    [[nodiscard]] cm::Attribute attribute() const { return cm::attribute_of(rx.mad); }
    [[nodiscard]] const wire::Gid& sender() const { return rx.path.remote_gid; }
};

inline std::vector<RecordedMad> recorded_mads(const std::filesystem::path& file) {
    std::vector<RecordedMad> mads;
    for (const auto& frame : read_pcap(file)) {
        wire::PacketView packet;
        if (!wire::parse_frame(frame, packet).ok()) throw std::runtime_error("not a RoCE frame");
        if (packet.bth.dest_qp != cm::kGsiQpn || packet.payload.size() != cm::kMadSize) continue;
        if (static_cast<uint8_t>(packet.payload[1]) != cm::MadHeader::kClassCm) continue;
        RecordedMad m;
        m.rx.path.network = packet.network;
        m.rx.path.local_gid = packet.dst_gid;
        m.rx.path.remote_gid = packet.src_gid;
        m.rx.source_qpn = packet.deth().src_qp;
        std::copy(packet.payload.begin(), packet.payload.end(), m.rx.mad.begin());
        mads.push_back(m);
    }
    return mads;
}

}  // namespace rocemu::test
