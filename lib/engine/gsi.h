// SPDX-License-Identifier: BSD-3-Clause
// The general services interface of a device: management datagrams that arrive at QP 1 are checked here and handed to
// control, which owns the connection manager. Sending is Shard::send_mad. Read IBTA volume 1, 3.9.4, 13.5.3, 13.4.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/drop_reason.h"
#include "wire/packet_view.h"

namespace rocemu::engine {

struct Device;
class Notifier;

inline constexpr uint32_t kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;  // IBTA 13.5.3
inline constexpr size_t kMadSize = 256;

// So many wait for control; more are lost. A program that ends may take a thousand connections with it at once.
inline constexpr size_t kMaxWaitingMads = 2048;

// A MAD as it travels to control. The ICRC, P_Key and Q_Key were right and `local` is an address of the device.
struct ReceivedMad {
    uint32_t device = 0;
    uint32_t source_qpn = 0;
    wire::NetworkType network = wire::NetworkType::V2Ipv4;
    wire::Gid local{}, remote{};
    uint16_t pkey = 0;
    uint8_t traffic_class = 0;
    std::array<std::byte, kMadSize> mad{};
};

// Hands the packet to control. None, or why not. Precondition: the packet is for QP 1 and its ICRC is right.
[[nodiscard]] wire::DropReason take_mad(const Device& device, const wire::PacketView& packet, Notifier& notifier);

}  // namespace rocemu::engine
