// SPDX-License-Identifier: BSD-3-Clause
// For the tests of shared registrations: memory, and what the kernel says of it.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "guard/fault_guard.h"
#include "provider/maps_reader.h"
#include "provider/share.h"
#include "provider/write_barrier.h"

namespace share_test {

using namespace rocemu::provider;

constexpr size_t kPage = 4096;

// Where userfaultfd is forbidden (containers) there is nothing to be seen.
#define NEEDS_USERFAULTFD()                                                         \
    if (const int refused = rocemu::provider::WriteBarrier::available()) {          \
        WARN("no userfaultfd here: errno " << refused);                             \
        return;                                                                     \
    }

struct Memory {
    char* base;
    size_t pages;
    explicit Memory(size_t count)
        : base(static_cast<char*>(mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
          pages(count) {
        REQUIRE(base != MAP_FAILED);
    }
    Memory(char* of, size_t count) : base(of), pages(count) {}
    ~Memory() {
        if (base != nullptr) munmap(base, bytes());
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    void forget() { base = nullptr; }
    [[nodiscard]] uint64_t va() const { return reinterpret_cast<uint64_t>(base); }
    [[nodiscard]] size_t bytes() const { return pages * kPage; }
    void put(size_t offset, uint64_t value) const { *reinterpret_cast<volatile uint64_t*>(base + offset) = value; }
    [[nodiscard]] uint64_t get(size_t offset) const { return *reinterpret_cast<const volatile uint64_t*>(base + offset); }
    void zero(size_t offset, size_t length) const {
        for (size_t i = offset; i < offset + length; i += 8) put(i, 0);
    }
};

inline std::string kind(const Vma& vma) {
    std::string out = vma.shared ? "shared" : "private";
    if (!vma.shared && vma.inode != 0) out += " file";
    if (!vma.writable) out += vma.readable ? " read-only" : " nothing";
    return out;
}

// Of the range; "mixed" if it is of several kinds, or if a part of it is not there.
inline std::string kind_of(uint64_t va, uint64_t bytes) {
    MapsReader maps;
    std::string found;
    uint64_t covered = 0;
    for (Vma vma; maps.next(vma);) {
        const uint64_t first = std::max(va, vma.start), last = std::min(va + bytes, vma.end);
        if (first >= last) continue;
        covered += last - first;
        if (!found.empty() && found != kind(vma)) return "mixed";
        found = kind(vma);
    }
    return covered == bytes || covered == 0 ? found : "mixed";
}

inline bool has_flags(uint64_t va, std::string flags) {
    MapsReader maps(MapsReader::Detail::Flags);
    for (Vma vma; maps.next(vma);) {
        if (va < vma.start || va >= vma.end) continue;
        for (size_t at = 0; at < flags.size(); at += 3)
            if (!vma.has_flag(flags.substr(at, 2))) return false;
        return true;
    }
    return false;
}

inline size_t count_mappings(uint64_t va = 0, uint64_t bytes = UINT64_MAX) {
    MapsReader maps;
    size_t n = 0;
    for (Vma vma; maps.next(vma);)
        if (vma.start >= va && vma.start - va < bytes) ++n;
    return n;
}

inline size_t count_descriptors() {
    size_t n = 0;
    DIR* directory = opendir("/proc/self/fd");
    while (readdir(directory) != nullptr) ++n;
    closedir(directory);
    return n;
}

// Memory that the files of all instances take.
inline uint64_t blocks_of_file() {
    uint64_t blocks = 0;
    for (int fd = 0; fd < 256; ++fd) {
        char path[64], name[64] = {};
        std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) <= 0 || std::string(name).find("rocemu-share") == std::string::npos) continue;
        struct stat st{};
        if (fstat(fd, &st) == 0) blocks += static_cast<uint64_t>(st.st_blocks);
    }
    return blocks;
}

}  // namespace share_test
