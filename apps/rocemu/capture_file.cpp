// SPDX-License-Identifier: BSD-3-Clause
// See capture_file.h.
#include "capture_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rocemu::cli {
namespace {

constexpr uint32_t kPcapMicro = 0xa1b2c3d4, kPcapNano = 0xa1b23c4d, kPcapngOrder = 0x1a2b3c4d;
constexpr uint32_t kSectionHeader = 0x0a0d0d0a, kInterface = 1, kSimplePacket = 3, kEnhancedPacket = 6;
constexpr uint32_t kLinkEthernet = 1;

}  // namespace

uint32_t CaptureFile::u32(size_t at) const {
    uint32_t v;
    std::memcpy(&v, &data_[at], sizeof v);
    return swapped_ ? __builtin_bswap32(v) : v;
}
uint16_t CaptureFile::u16(size_t at) const {
    uint16_t v;
    std::memcpy(&v, &data_[at], sizeof v);
    return swapped_ ? __builtin_bswap16(v) : v;
}

std::string CaptureFile::open(const std::string& path) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) return std::strerror(errno);
    data_.clear();
    std::vector<std::byte> chunk(1 << 20);
    for (size_t n; (n = std::fread(chunk.data(), 1, chunk.size(), file.get())) > 0;)
        data_.insert(data_.end(), chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(n));
    if (std::ferror(file.get())) return std::strerror(errno);
    if (data_.size() < 24) return "too short for a capture";

    if (u32(0) == kSectionHeader) {
        pcapng_ = true;
        return {};
    }
    for (const bool swapped : {false, true}) {
        swapped_ = swapped;
        if (u32(0) != kPcapMicro && u32(0) != kPcapNano) continue;
        ethernet_ = (u32(20) & 0x0fffffff) == kLinkEthernet;
        at_ = 24;
        return {};
    }
    return "neither pcap nor pcapng";
}

bool CaptureFile::next(CapturedFrame& frame, std::string& error) {
    return pcapng_ ? next_pcapng(frame, error) : next_pcap(frame, error);
}

bool CaptureFile::next_pcap(CapturedFrame& frame, std::string& error) {
    if (left() == 0) return false;
    if (left() < 16 || u32(at_ + 8) > left() - 16) {
        error = "ends inside a record";
        return false;
    }
    const uint32_t captured = u32(at_ + 8), length = u32(at_ + 12);
    frame = {{&data_[0] + at_ + 16, captured}, captured >= length, ethernet_};
    at_ += 16 + captured;
    return true;
}

// A section header says its byte order in its own body.
bool CaptureFile::begin_section(std::string& error) {
    interfaces_.clear();
    for (const bool swapped : {false, true}) {
        swapped_ = swapped;
        if (u32(at_ + 8) == kPcapngOrder) return true;
    }
    error = "section of unknown byte order";
    return false;
}

bool CaptureFile::next_pcapng(CapturedFrame& frame, std::string& error) {
    while (left() > 0) {
        if (left() < 12) {
            error = "ends inside a block";
            return false;
        }
        // The type of a section header reads the same in both orders.
        if (u32(at_) == kSectionHeader && !begin_section(error)) return false;
        const uint32_t type = u32(at_), length = u32(at_ + 4);
        if (length < 12 || length % 4 != 0 || length > left()) {
            error = "ends inside a block";
            return false;
        }
        const size_t body = at_ + 8, bytes = length - 12;
        at_ += length;
        if (type == kInterface && bytes >= 8) {
            interfaces_.push_back({u16(body) == kLinkEthernet, u32(body + 4)});
        } else if (type == kEnhancedPacket && bytes >= 20) {
            const uint32_t interface = u32(body), captured = u32(body + 12), original = u32(body + 16);
            if (captured > bytes - 20 || interface >= interfaces_.size()) {
                error = "packet block with wrong numbers";
                return false;
            }
            frame = {{&data_[0] + body + 20, captured}, captured >= original, interfaces_[interface].ethernet};
            return true;
        } else if (type == kSimplePacket && bytes >= 4 && !interfaces_.empty()) {
            const uint32_t original = u32(body), snap = interfaces_[0].snap;
            const uint64_t captured = std::min<uint64_t>({original, bytes - 4, snap == 0 ? UINT32_MAX : snap});
            frame = {{&data_[0] + body + 4, captured}, captured >= original, interfaces_[0].ethernet};
            return true;
        }
    }
    return false;
}

}  // namespace rocemu::cli
