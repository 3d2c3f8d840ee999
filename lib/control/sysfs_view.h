// SPDX-License-Identifier: BSD-3-Clause
// SysfsView: the files in which programs look for RDMA devices (/sys/class/infiniband, /sys/class/infiniband_verbs,
// /sys/class/infiniband_mad, /sys/class/misc/rdma_cm, /dev/infiniband), as a directory beside the socket. The provider
// leads the programs' paths there. Contents follow the devices within a second; only what has changed is written.
// Read Documentation/ABI/stable/sysfs-class-infiniband of Linux for the formats.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace rocemu::control {

struct Control;

class SysfsView {
  public:
    // What cannot be written is missing there, with a warning.
    SysfsView(Control& control, std::string root);
    ~SysfsView();  // removes it
    SysfsView(const SysfsView&) = delete;
    SysfsView& operator=(const SysfsView&) = delete;

    void refresh();

  private:
    void make_directories(const std::filesystem::path& path);  // below the root
    void write(const std::string& path, const std::string& content);

    Control& control_;
    std::string root_;
    std::map<std::string, std::string> written_;
    bool complained_ = false;
};

// The files and their contents, by path below the root: "sys/class/infiniband/rocemu0/node_guid" and so on.
[[nodiscard]] std::map<std::string, std::string> sysfs_files(Control& control);

}  // namespace rocemu::control
