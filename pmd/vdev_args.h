// SPDX-License-Identifier: BSD-3-Clause
// VdevArgs: a DPDK device specification ("net_af_packet,iface=eth1,framesz=8192") taken apart and put together again.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rocemu::pmd {

class VdevArgs {
  public:
    explicit VdevArgs(const std::string& spec);

    [[nodiscard]] const std::string& device() const { return device_; }
    // Driver name: the device without its trailing digits ("net_af_packet0" and "net_af_packet": "net_af_packet").
    [[nodiscard]] std::string driver() const;
    [[nodiscard]] bool is_pci() const;
    [[nodiscard]] std::string get(const std::string& key) const;  // empty: not given
    // 0: not given. Throws std::runtime_error if it is no number of 1 to `max`.
    [[nodiscard]] unsigned number(const std::string& key, unsigned max) const;
    void set_default(const std::string& key, const std::string& value);
    [[nodiscard]] std::string arguments() const;  // without the device

  private:
    std::string device_;
    std::vector<std::pair<std::string, std::string>> args_;
};

// MTU of a kernel interface, 0 if it does not exist.
unsigned interface_mtu(const std::string& netdev);

// Bytes of a TPACKET_V2 slot for an interface with this MTU. The largest holds path MTU 4096 with all headers; eight of
// either size are whole pages, as a block must be.
inline constexpr unsigned kLargestSlot = 4608;
unsigned af_packet_frame_size(unsigned mtu);

}  // namespace rocemu::pmd
