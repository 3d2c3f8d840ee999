// SPDX-License-Identifier: BSD-3-Clause
// Device: one shard's view of a NIC: its port instance, addresses, counters, and the frames that wait to be sent.
#pragma once

#include <vector>

#include "base/fixed_ring.h"
#include "engine/capture_tap.h"
#include "engine/flows.h"
#include "engine/frame_cache.h"
#include "engine/groups.h"
#include "engine/setup.h"
#include "stats/counters.h"
#include "wire/drop_reason.h"
#include "wire/mac.h"
#include "wire/packet_view.h"

namespace rocemu::engine {

struct Device {
    static constexpr uint32_t kTxFrames = 1024;    // built, not taken by the port yet
    static constexpr uint32_t kLoopFrames = 1024;  // to our own MAC, where the port does not return them

    explicit Device(const DeviceSetup& s);
    ~Device();

    // A batch of `frames` fits, whichever way it goes.
    [[nodiscard]] bool tx_room(uint32_t frames) const { return tx.room() >= frames && loop.room() >= frames; }
    // Takes a finished frame. Precondition: tx_room.
    void send(const Frame& frame) {
        if (tap != nullptr || !groups.empty()) show(frame, false);
        const bool own = !info.receives_own_frames && wire::same_mac(frame.data, mac);
        (own ? loop : tx).push() = frame;
    }
    // Likewise a raw packet QP's frame: rules of this port get it too, as in a NIC that loops back what it steers.
    void send_raw(Frame frame);
    void loop_back(const Frame& frame);
    // What is sent: to the tap, and to members of its group at this port, unless it comes back to them anyway: each frame
    // has one place in `loop`.
    void show(const Frame& frame, bool comes_back);
    // Gives waiting frames to the port; true if it took any.
    bool flush(Instant now);
    // Frames for rx: those of the port, then looped ones.
    size_t receive(Instant now, std::span<Frame> frames);

    // Shows a received frame to the tap; None: it went on.
    void seen(const Frame& frame, wire::DropReason reason);
    // It goes no further: counted, and shown to the tap.
    void drop(const Frame& frame, wire::DropReason reason);
    [[nodiscard]] const LocalAddress* find(const wire::Gid& gid) const;
    [[nodiscard]] bool in_vlan(uint16_t vlan) const;  // one of our addresses is; wire::kNoVlan too
    // None: the packet is for one of our addresses, and came on its VLAN.
    [[nodiscard]] wire::DropReason refusal(const wire::PacketView& packet) const;

    DeviceSetup setup;
    PortInfo info;
    wire::MacAddress mac{};
    uint32_t mtu = 0;
    std::vector<LocalAddress> addresses;
    Groups groups;  // members of this shard
    Flows flows;    // shard kRawShard only
    stats::CounterBlock counters;
    FrameCache cache;
    CaptureTap* tap = nullptr;
    FixedRing<Frame> tx{kTxFrames};
    FixedRing<Frame> loop{kLoopFrames};
};

}  // namespace rocemu::engine
