// SPDX-License-Identifier: BSD-3-Clause
// The mappings of this process, one after the other, from /proc/self/maps or (with their flags) smaps: see proc(5).
// Neither allocates nor calls what a forked child of a program with threads may not call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/types.h>

namespace rocemu::provider {

struct Vma {
    uint64_t start = 0, end = 0;
    uint64_t offset = 0;  // of `start`, in the file
    dev_t device = 0;
    ino_t inode = 0;  // 0: no file
    bool readable = false, writable = false, executable = false, shared = false;
    char name[512] = {};  // cut off
    char flags[192] = {};  // VmFlags of smaps: "rd wr mr ", two letters and a space each

    [[nodiscard]] bool has_flag(std::string_view two_letters) const;
    // Has it no flag but these ("rd wr ")?
    [[nodiscard]] bool has_only(std::string_view flags) const;
    [[nodiscard]] int protection() const;  // PROT_*
    [[nodiscard]] bool is_of(dev_t of_device, ino_t of_inode) const {
        return inode != 0 && inode == of_inode && device == of_device;
    }
};

class MapsReader {
  public:
    // Flags cost the kernel a walk over the pages of every mapping.
    enum class Detail { Mappings, Flags };
    explicit MapsReader(Detail detail = Detail::Mappings);
    ~MapsReader();
    MapsReader(const MapsReader&) = delete;
    MapsReader& operator=(const MapsReader&) = delete;

    [[nodiscard]] bool ok() const { return fd_ >= 0; }
    // Ascending addresses. False: that was the last one. What changes meanwhile is read in either state.
    bool next(Vma& out);

  private:
    bool line(char* out, size_t room);  // what has no room is left out

    int fd_;
    Detail detail_;
    size_t at_ = 0, filled_ = 0;
    char buffer_[4096];
};

}  // namespace rocemu::provider
