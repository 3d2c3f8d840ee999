// SPDX-License-Identifier: BSD-3-Clause
// InterfaceWatch: follows the kernel interfaces behind devices. What rtnetlink reports is only taken as "look again":
// the interface is read anew and compared, so lost or merged messages do no harm. Changes reach the shards, and every
// context of the device gets its asynchronous events. The kernel is kept from answering RoCE packets. Read rtnetlink(7) and ibv_get_async_event(3).
#pragma once

#include <map>
#include <memory>

#include "control/device.h"
#include "control/udp_guard.h"
#include "control/unique_fd.h"

namespace rocemu::control {

struct Control;

class InterfaceWatch {
  public:
    // Subscribes if a device has a kernel interface; without the subscription a device keeps what it began with.
    // Nothing tells of the links of other ports (a peer that comes later, a NIC that negotiates): they are looked at.
    explicit InterfaceWatch(Control& control);
    ~InterfaceWatch();
    InterfaceWatch(const InterfaceWatch&) = delete;
    InterfaceWatch& operator=(const InterfaceWatch&) = delete;

  private:
    void follow_interfaces();
    void drain();
    void look_again();
    void look_at_links();
    void tell(const Device& device, const Device::Changes& changes);
    void guard();

    Control& control_;
    UniqueFd socket_;
    std::map<uint32_t, std::unique_ptr<UdpGuard>> guards_;  // by interface; nullptr where it cannot be
};

}  // namespace rocemu::control
