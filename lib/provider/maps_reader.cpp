// SPDX-License-Identifier: BSD-3-Clause
// See maps_reader.h. System calls are made directly: the functions of the C library have hooks of ours in front of them.
#include "provider/maps_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace rocemu::provider {
namespace {

// A number and the character behind it; nullptr: there is none.
const char* number(const char* at, unsigned base, char behind, uint64_t& out) {
    const char* first = at;
    for (out = 0;; ++at) {
        const auto c = static_cast<unsigned char>(*at);
        const unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10u : 16u;
        if (digit >= base) break;
        out = out * base + digit;
    }
    return at != first && *at == behind ? at + 1 : nullptr;
}

template <size_t kRoom>
void copy_text(char (&out)[kRoom], const char* text) {
    const size_t length = std::min(std::strlen(text), kRoom - 1);
    std::memcpy(out, text, length);
    out[length] = 0;
}

// "start-end rwxs offset major:minor inode   name"
bool parse(const char* line, Vma& out) {
    uint64_t major_number = 0, minor_number = 0, inode = 0;
    const char* at = number(line, 16, '-', out.start);
    if (at == nullptr || (at = number(at, 16, ' ', out.end)) == nullptr || std::strlen(at) < 5) return false;
    out.readable = at[0] == 'r';
    out.writable = at[1] == 'w';
    out.executable = at[2] == 'x';
    out.shared = at[3] == 's';
    at = number(at + 5, 16, ' ', out.offset);
    if (at == nullptr || (at = number(at, 16, ':', major_number)) == nullptr) return false;
    if ((at = number(at, 16, ' ', minor_number)) == nullptr) return false;
    const char* rest = number(at, 10, ' ', inode);
    if (rest == nullptr) return false;
    while (*rest == ' ') ++rest;
    out.device = makedev(static_cast<unsigned>(major_number), static_cast<unsigned>(minor_number));
    out.inode = inode;
    copy_text(out.name, rest);
    out.flags[0] = 0;
    return true;
}

}  // namespace

bool Vma::has_flag(std::string_view two_letters) const {
    return std::string_view(flags).find(two_letters) != std::string_view::npos;
}

bool Vma::has_only(std::string_view allowed) const {
    const std::string_view all(flags);
    if (all.empty()) return false;
    for (size_t at = 0; at + 2 <= all.size(); at += 3)
        if (allowed.find(all.substr(at, 2)) == std::string_view::npos) return false;
    return true;
}

int Vma::protection() const {
    return (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
}

MapsReader::MapsReader(Detail detail)
    : fd_(static_cast<int>(syscall(SYS_openat, AT_FDCWD, detail == Detail::Flags ? "/proc/self/smaps" : "/proc/self/maps",
                                   O_RDONLY | O_CLOEXEC))),
      detail_(detail) {}

MapsReader::~MapsReader() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
}

bool MapsReader::line(char* out, size_t room) {
    size_t length = 0;
    for (;;) {
        if (at_ == filled_) {
            const long n = syscall(SYS_read, fd_, buffer_, sizeof buffer_);
            if (n < 0 && errno == EINTR) continue;
            at_ = 0;
            filled_ = n > 0 ? static_cast<size_t>(n) : 0;
            if (n <= 0) break;
        }
        const char c = buffer_[at_++];
        if (c == '\n') {
            out[length] = 0;
            return true;
        }
        if (length + 1 < room) out[length++] = c;
    }
    out[length] = 0;
    return length != 0;
}

bool MapsReader::next(Vma& out) {
    constexpr std::string_view kFlags = "VmFlags: ";
    char text[640];
    bool found = false;
    while (fd_ >= 0 && line(text, sizeof text)) {
        if (!found) {
            found = parse(text, out);
            if (found && detail_ == Detail::Mappings) return true;
        } else if (std::strncmp(text, kFlags.data(), kFlags.size()) == 0) {
            copy_text(out.flags, text + kFlags.size());
            return true;
        }
    }
    return false;
}

}  // namespace rocemu::provider
