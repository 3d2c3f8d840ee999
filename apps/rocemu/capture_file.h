// SPDX-License-Identifier: BSD-3-Clause
// CaptureFile: frames of a pcap or pcapng file, in order. Read the pcapng specification (draft-ietf-opsawg-pcapng) and
// pcap-savefile(5). Both byte orders; Ethernet only; nothing in the file is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rocemu::cli {

struct CapturedFrame {
    std::span<const std::byte> bytes;  // into the file's memory
    bool whole = true;                 // false: cut by the snap length
    bool ethernet = true;
};

class CaptureFile {
  public:
    // Empty, or what is wrong.
    std::string open(const std::string& path);
    // False at the end; `error` is set when the end is not where it should be.
    bool next(CapturedFrame& frame, std::string& error);

  private:
    bool next_pcap(CapturedFrame& frame, std::string& error);
    bool next_pcapng(CapturedFrame& frame, std::string& error);
    bool begin_section(std::string& error);
    [[nodiscard]] uint32_t u32(size_t at) const;
    [[nodiscard]] uint16_t u16(size_t at) const;
    [[nodiscard]] size_t left() const { return data_.size() - at_; }

    struct Interface {
        bool ethernet;
        uint32_t snap;
    };
    std::vector<std::byte> data_;
    size_t at_ = 0;
    bool pcapng_ = false;
    bool swapped_ = false;
    bool ethernet_ = true;  // pcap
    std::vector<Interface> interfaces_;
};

}  // namespace rocemu::cli
