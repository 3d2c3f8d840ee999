// SPDX-License-Identifier: BSD-3-Clause
// Device: an opened verbs device with what all cases of a process share.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

namespace interop {

class Device {
  public:
    explicit Device(const std::string& name);
    ~Device();
    Device(const Device&) = delete;

    // The first routable RoCE v2 entry of this address family; -1: none.
    [[nodiscard]] int gid_index(int ip) const;
    // Names of the asynchronous events since the last call. A connection that becomes established is none.
    [[nodiscard]] std::vector<std::string> take_events();

    ibv_context* context = nullptr;
    ibv_port_attr port{};
};

[[nodiscard]] double seconds();  // monotonic

}  // namespace interop
