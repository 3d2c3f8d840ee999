// SPDX-License-Identifier: BSD-3-Clause
// Reads classic pcap files (not pcapng) of Ethernet frames for tests: both byte orders, micro- and nanoseconds.
// Format: draft-ietf-opsawg-pcap. Damaged or foreign files throw: a test must not pass because it read nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace rocemu::test {

using Frame = std::vector<std::byte>;

inline std::vector<Frame> read_pcap(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot open " + path.string());
    const std::string file{std::istreambuf_iterator<char>(in), {}};

    bool swapped = false;
    const auto word = [&](size_t at) {
        if (at + 4 > file.size()) throw std::runtime_error("truncated pcap " + path.string());
        uint32_t v;
        std::memcpy(&v, file.data() + at, sizeof v);
        return swapped ? __builtin_bswap32(v) : v;
    };
    const uint32_t magic = word(0);
    swapped = magic == 0xd4c3b2a1 || magic == 0x4d3cb2a1;
    if (!swapped && magic != 0xa1b2c3d4 && magic != 0xa1b23c4d)
        throw std::runtime_error("not a pcap: " + path.string());
    if (word(20) != 1) throw std::runtime_error("not Ethernet: " + path.string());

    std::vector<Frame> frames;
    for (size_t at = 24; at < file.size();) {
        const uint32_t captured = word(at + 8), original = word(at + 12);
        at += 16;
        if (captured != original || captured > file.size() - at)
            throw std::runtime_error("truncated frame in " + path.string());
        const auto* data = reinterpret_cast<const std::byte*>(file.data() + at);
        frames.emplace_back(data, data + captured);
        at += captured;
    }
    return frames;
}

// All pcap files below a directory, in a fixed order.
inline std::vector<std::filesystem::path> pcap_files(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
        if (entry.path().extension() == ".pcap") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace rocemu::test
