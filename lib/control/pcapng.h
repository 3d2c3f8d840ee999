// SPDX-License-Identifier: BSD-3-Clause
// Pcapng: makes the blocks of a capture file: section header, one interface, enhanced packets with direction and
// comment. Read the PCAP Next Generation draft (draft-ietf-opsawg-pcapng), sections 4.1 to 4.3. Host byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rocemu::control {

enum class PacketDirection : uint8_t { Inbound = 1, Outbound = 2 };  // epb_flags, bits 0 and 1

class PcapngWriter {
  public:
    // Appends to `out`.
    explicit PcapngWriter(std::vector<std::byte>& out) : out_(out) {}

    void begin(std::string_view interface, uint32_t snap_length);
    void packet(int64_t unix_ns, PacketDirection direction, std::span<const std::byte> captured, uint32_t length,
                std::string_view comment);

  private:
    template <typename T>
    void put(T value);
    void put_bytes(std::span<const std::byte> bytes);  // padded to 4
    void option(uint16_t code, std::span<const std::byte> value);
    void option(uint16_t code, std::string_view text);
    size_t open_block(uint32_t type);
    void close_block(size_t start);

    std::vector<std::byte>& out_;
};

}  // namespace rocemu::control
