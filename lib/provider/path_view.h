// SPDX-License-Identifier: BSD-3-Clause
// Paths in which programs look for RDMA devices (/sys/class/infiniband and so on, /dev/infiniband) lead to files that
// the daemon keeps (lib/control/sysfs_view.h). What is not there is looked for where it was asked for, so the devices
// of the host stay visible by name.
#pragma once

#include <climits>

namespace rocemu::provider {

class PathView {
  public:
    explicit PathView(const char* path);
    // The path to use; valid as long as this object.
    [[nodiscard]] const char* get() const { return path_; }
    [[nodiscard]] bool redirected() const { return path_ == buffer_; }
    // It stands for a device file, a plain file of which is there.
    [[nodiscard]] bool is_device() const { return redirected() && device_; }
    // Turns a canonical path below the view back into the one that a program knows; false if it is not below it.
    static bool restore(char* path);

    // While it lives, this thread sees the host's own files only: the real libibverbs looks for the host's devices.
    class Suspend {
      public:
        Suspend();
        ~Suspend();
    };

  private:
    const char* path_;
    bool device_ = false;
    char buffer_[PATH_MAX];
};

}  // namespace rocemu::provider
