// SPDX-License-Identifier: BSD-3-Clause
// WireControl: tells the lossy wire (lossy_wire.cpp) which case begins, with which loss, and whether its capture is to
// be kept. Without a socket there is no such wire, and nothing is told.
#pragma once

#include <cstdint>
#include <string>

namespace interop {

class WireControl {
  public:
    explicit WireControl(const std::string& socket_path);  // empty: none
    ~WireControl();
    WireControl(const WireControl&) = delete;

    // For packets to these queue pairs of this side and of the other; 0: all. Records so many bytes of each.
    void begin(const std::string& name, unsigned loss_percent, uint32_t mine = 0, uint32_t theirs = 0,
               unsigned recorded = 65535);
    void end(bool keep);

  private:
    void tell(const std::string& line);
    int fd_ = -1;
};

}  // namespace interop
