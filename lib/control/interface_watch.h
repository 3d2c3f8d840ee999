// SPDX-License-Identifier: BSD-3-Clause
// InterfaceWatch: follows the kernel interfaces behind devices. What rtnetlink reports is only taken as "look again":
// the interface is read anew and compared, so lost or merged messages do no harm. Changes reach the shards, and every
// context of the device gets its asynchronous events. Read rtnetlink(7) and ibv_get_async_event(3).
#pragma once

#include "control/device.h"
#include "control/unique_fd.h"

namespace rocemu::control {

struct Control;

class InterfaceWatch {
  public:
    // Subscribes if a device has a kernel interface; without the subscription a device keeps what it began with.
    explicit InterfaceWatch(Control& control);
    ~InterfaceWatch();
    InterfaceWatch(const InterfaceWatch&) = delete;
    InterfaceWatch& operator=(const InterfaceWatch&) = delete;

  private:
    void drain();
    void look_again();
    void tell(const Device& device, const Device::Changes& changes);

    Control& control_;
    UniqueFd socket_;
};

}  // namespace rocemu::control
