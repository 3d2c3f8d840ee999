// SPDX-License-Identifier: BSD-3-Clause
// parse_frame on damaged frames: every truncation of recorded frames, and many with random bytes changed. Nothing may
// be read outside of the frame (buffers are exactly sized: the sanitizer build sees it), and what is accepted must hold
// together. The fuzz target goes on from here.
#include <catch2/catch.hpp>
#include <random>

#include "support/packet_invariants.h"
#include "support/pcap.h"
#include "wire/parse.h"

using namespace rocemu;

TEST_CASE("truncated frames never parse as RoCE", "[9.6][case3]") {
    size_t accepted = 0, tried = 0;
    for (const auto& file : test::pcap_files(VECTORS_DIR)) {
        size_t used = 0;
        for (const auto& frame : test::read_pcap(file)) {
            if (frame.size() > 300) continue;
            if (++used > 12) break;
            for (size_t size = 0; size < frame.size(); ++size) {
                const test::Frame cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
                wire::PacketView packet;
                accepted += wire::parse_frame(cut, packet).ok();
                ++tried;
            }
        }
    }
    CHECK(accepted == 0);
    CHECK(tried > 30000);
}

TEST_CASE("random damage is dropped or leaves a packet that holds together", "[9.6][case3]") {
    std::mt19937 random(20);
    std::vector<size_t> reasons(wire::kDropReasonCount);
    size_t broken = 0, accepted = 0;
    for (const auto& file : test::pcap_files(VECTORS_DIR)) {
        size_t used = 0;
        for (const auto& frame : test::read_pcap(file)) {
            if (++used > 25) break;
            for (int round = 0; round < 60; ++round) {
                test::Frame damaged = frame;
                const size_t reach = std::min<size_t>(damaged.size(), 80);
                for (unsigned n = 1 + random() % 3; n > 0; --n)
                    damaged[random() % reach] = static_cast<std::byte>(random());
                wire::PacketView packet;
                const auto result = wire::parse_frame(damaged, packet);
                ++reasons[static_cast<size_t>(result.reason)];
                accepted += result.ok();
                if (result.ok()) broken += !test::holds_together(packet, damaged);
            }
        }
    }
    CHECK(broken == 0);
    CHECK(accepted > 1000);
    CHECK(reasons[static_cast<size_t>(wire::DropReason::UnknownOpcode)] > 0);
    CHECK(reasons[static_cast<size_t>(wire::DropReason::IpChecksum)] > 0);
}
