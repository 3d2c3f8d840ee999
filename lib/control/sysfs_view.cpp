// SPDX-License-Identifier: BSD-3-Clause
// SysfsView: the directory. What is in the files: sysfs_files.cpp.
#include "control/sysfs_view.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "control/control.h"
#include "control/log.h"

namespace rocemu::control {

namespace fs = std::filesystem;

SysfsView::SysfsView(Control& control, std::string root) : control_(control), root_(std::move(root)) {
    std::error_code error;
    fs::remove_all(root_, error);  // of a daemon that is dead
    fs::create_directory(root_, error);
    // Who may use the devices may see them.
    const bool others = (control.config.daemon.socket_mode & 077) != 0;
    const auto mode = others ? fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                                   fs::perms::others_read | fs::perms::others_exec
                             : fs::perms::owner_all;
    fs::permissions(root_, mode, error);
    refresh();
}

SysfsView::~SysfsView() {
    std::error_code error;
    fs::remove_all(root_, error);
}

// Modes are given, not left to the umask: who may attach may look, and who may not is kept out by the root directory.
void SysfsView::make_directories(const fs::path& path) {
    std::string at = root_;
    for (const auto& part : path) {
        at += "/" + part.string();
        if (::mkdir(at.c_str(), 0700) == 0) ::chmod(at.c_str(), 0755);
    }
}

void SysfsView::write(const std::string& path, const std::string& content) {
    const std::string full = root_ + "/" + path;
    const auto open_file = [&] { return ::open(full.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644); };
    UniqueFd file(open_file());
    if (!file && errno == ENOENT) {
        make_directories(fs::path(path).parent_path());
        file = UniqueFd(open_file());
    }
    // In one call, then cut: a reader never sees an empty file.
    const auto n = static_cast<ssize_t>(content.size());
    // Programs look whether they may write to the device; opening it is the provider's affair.
    if (file) ::fchmod(file.get(), path.starts_with("dev/") ? 0666 : 0644);
    const bool ok = file && pwrite(file.get(), content.data(), content.size(), 0) == n && ftruncate(file.get(), n) == 0;
    if (ok) {
        written_[path] = content;
    } else if (!complained_) {
        complained_ = true;
        log::warn("{}: {}: programs that look there find no devices", full, std::strerror(errno));
    }
}

void SysfsView::refresh() {
    const auto files = sysfs_files(control_);
    for (auto it = written_.begin(); it != written_.end();) {
        if (files.contains(it->first)) {
            ++it;
            continue;
        }
        ::unlink((root_ + "/" + it->first).c_str());
        it = written_.erase(it);
    }
    for (const auto& [path, content] : files) {
        const auto known = written_.find(path);
        if (known == written_.end() || known->second != content) write(path, content);
    }
}

}  // namespace rocemu::control
