// SPDX-License-Identifier: BSD-3-Clause
// WireControl: tells the lossy wire (lossy_wire.cpp) which case begins, with which loss, and whether its capture is to
// be kept. Without a socket there is no such wire, and nothing is told.
#pragma once

#include <string>

namespace interop {

class WireControl {
  public:
    explicit WireControl(const std::string& socket_path);  // empty: none
    ~WireControl();
    WireControl(const WireControl&) = delete;

    // Records so many bytes of each packet.
    void begin(const std::string& name, unsigned loss_percent, unsigned recorded = 65535);
    void end(bool keep);

  private:
    void tell(const std::string& line);
    int fd_ = -1;
};

}  // namespace interop
