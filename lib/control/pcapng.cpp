// SPDX-License-Identifier: BSD-3-Clause
// Pcapng: see pcapng.h. Every block carries its length before and behind, everything is aligned to four bytes.
#include "control/pcapng.h"

#include <cstring>

namespace rocemu::control {
namespace {

constexpr uint32_t kSectionHeader = 0x0A0D0D0A, kInterface = 1, kEnhancedPacket = 6;
constexpr uint16_t kEndOfOptions = 0, kComment = 1;
constexpr uint16_t kUserApplication = 4;                          // of a section
constexpr uint16_t kInterfaceName = 2, kTimestampResolution = 9;  // of an interface
constexpr uint16_t kPacketFlags = 2;
constexpr uint16_t kLinkEthernet = 1;

}  // namespace

template <typename T>
void PcapngWriter::put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), p, p + sizeof value);
}

void PcapngWriter::put_bytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    out_.resize(out_.size() + (-bytes.size() & 3));
}

void PcapngWriter::option(uint16_t code, std::span<const std::byte> value) {
    put(code);
    put(static_cast<uint16_t>(value.size()));
    put_bytes(value);
}

void PcapngWriter::option(uint16_t code, std::string_view text) {
    option(code, std::as_bytes(std::span(text)));
}

size_t PcapngWriter::open_block(uint32_t type) {
    const size_t start = out_.size();
    put(type);
    put(uint32_t{0});
    return start;
}

void PcapngWriter::close_block(size_t start) {
    const auto length = static_cast<uint32_t>(out_.size() - start + 4);
    put(length);
    std::memcpy(out_.data() + start + 4, &length, sizeof length);
}

void PcapngWriter::begin(std::string_view interface, uint32_t snap_length) {
    size_t block = open_block(kSectionHeader);
    put(uint32_t{0x1A2B3C4D});
    put(uint16_t{1});
    put(uint16_t{0});
    put(~uint64_t{0});  // section length unknown
    option(kUserApplication, "rocemud");
    put(uint32_t{kEndOfOptions});
    close_block(block);

    block = open_block(kInterface);
    put(kLinkEthernet);
    put(uint16_t{0});
    put(snap_length);
    option(kInterfaceName, interface);
    const std::byte nanoseconds{9};
    option(kTimestampResolution, std::span(&nanoseconds, 1));
    put(uint32_t{kEndOfOptions});
    close_block(block);
}

void PcapngWriter::packet(int64_t unix_ns, PacketDirection direction, std::span<const std::byte> captured,
                          uint32_t length, std::string_view comment) {
    const size_t block = open_block(kEnhancedPacket);
    put(uint32_t{0});  // interface
    const auto time = static_cast<uint64_t>(unix_ns);
    put(static_cast<uint32_t>(time >> 32));
    put(static_cast<uint32_t>(time));
    put(static_cast<uint32_t>(captured.size()));
    put(length);
    put_bytes(captured);
    const auto flags = static_cast<uint32_t>(direction);
    option(kPacketFlags, std::as_bytes(std::span(&flags, 1)));
    if (!comment.empty()) option(kComment, comment);
    put(uint32_t{kEndOfOptions});
    close_block(block);
}

}  // namespace rocemu::control
