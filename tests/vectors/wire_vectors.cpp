// SPDX-License-Identifier: BSD-3-Clause
// Recorded frames of a Linux peer (tests/vectors/data): each parses, its ICRC verifies, our builder makes the same
// bytes from the parsed fields, and a flipped bit fails the ICRC unless the field may change in flight.
// Read IBTA annex A17.3 and volume 1, 9.2.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "support/pcap.h"
#include "support/wire_frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::wire;

namespace {

const std::vector<std::filesystem::path>& files() {
    static const auto list = test::pcap_files(VECTORS_DIR);
    return list;
}

// Reads, parses and hands over every frame; returns their number.
template <typename Use>
size_t for_each_frame(Use use) {
    size_t count = 0;
    for (const auto& file : files()) {
        for (const auto& frame : test::read_pcap(file)) {
            INFO(file << " frame " << count);
            PacketView packet;
            const auto result = parse_frame(frame, packet);
            REQUIRE(result.ok());
            use(frame, packet);
            ++count;
        }
    }
    return count;
}

// Offsets in layer 3 and bits that a router or switch may change (annex A17.3.3, written down apart from icrc.cpp).
bool may_change(NetworkType network, size_t byte, unsigned bit) {
    if (network == NetworkType::V2Ipv4) {
        static const std::set<size_t> bytes{1, 8, 10, 11, 26, 27, 32};
        return bytes.count(byte) != 0;
    }
    static const std::set<size_t> bytes{1, 2, 3, 7, 46, 47, 52};
    return bytes.count(byte) != 0 || (byte == 0 && bit < 4);
}

}  // namespace

TEST_CASE("the set is complete") {
    CHECK(files().size() == 82);
    CHECK(for_each_frame([](const auto&, const auto&) {}) == 3294);
}

TEST_CASE("each recorded ICRC verifies, with each kernel", "[A17.3.3][CA17-22]") {
    const char* const before = active_crc_kernel().name;
    for (const CrcKernel* kernel : crc_kernels()) {
        REQUIRE(select_crc_kernel(kernel->name));
        size_t wrong = 0;
        for_each_frame([&](const auto&, const PacketView& p) {
            wrong += !icrc_matches(p);
            // In parts, as the data path does it: headers, then payload and pad.
            const uint32_t headers = icrc_header_part(p.headers(), p.network);
            const size_t rest = p.l3.size() - p.headers().size();
            const uint32_t payload = crc32_update(0, p.payload.data(), rest);
            wrong += icrc_finish(crc32_combine(headers, payload, rest)) != p.icrc;
        });
        INFO(kernel->name);
        CHECK(wrong == 0);
    }
    REQUIRE(select_crc_kernel(before));
}

TEST_CASE("our builder makes every recorded frame", "[A17.3.1]") {
    size_t wrong = 0;
    std::map<std::string, int> opcodes;
    std::set<NetworkType> networks;
    for_each_frame([&](const test::Frame& frame, const PacketView& p) {
        wrong += test::rebuild(p) != frame;
        ++opcodes[p.op->name];
        networks.insert(p.network);
    });
    CHECK(wrong == 0);
    CHECK(networks.size() == 2);
    for (const char* name :
         {"RC_SEND_FIRST", "RC_SEND_ONLY_IMM", "RC_SEND_ONLY_INV", "RC_WRITE_MIDDLE", "RC_WRITE_ONLY_IMM",
          "RC_READ_REQUEST", "RC_READ_RESPONSE_ONLY", "RC_ACKNOWLEDGE", "RC_ATOMIC_ACKNOWLEDGE", "RC_COMPARE_SWAP",
          "RC_FETCH_ADD", "RC_ATOMIC_WRITE", "UC_SEND_LAST_IMM", "UC_WRITE_ONLY", "UD_SEND_ONLY", "UD_SEND_ONLY_IMM"}) {
        INFO(name);
        CHECK(opcodes[name] > 0);
    }
}

TEST_CASE("recorded NAKs and RNR NAKs carry the syndromes we would write") {
    std::map<std::pair<AethKind, int>, int> seen;
    for_each_frame([&](const auto&, const PacketView& p) {
        if (p.op->has(ext::kAeth)) ++seen[{p.aeth().kind(), p.aeth().value()}];
    });
    const auto nak = [&](NakCode code) { return seen[{AethKind::Nak, static_cast<int>(code)}]; };
    CHECK(seen[{AethKind::Ack, kNoCredits}] > 500);
    CHECK(seen[{AethKind::RnrNak, 20}] > 0);  // 0x34: 10.24 ms
    CHECK(nak(NakCode::PsnSequenceError) > 0);
    CHECK(nak(NakCode::InvalidRequest) > 0);
    CHECK(nak(NakCode::RemoteAccessError) > 0);
    CHECK(nak(NakCode::RemoteOperationalError) > 0);
    CHECK(seen.size() == 6);
}

TEST_CASE("a flipped bit fails the ICRC exactly where nothing may change in flight", "[A17.3.3][CA17-22][case2]") {
    // Every bit of layer 3 and ICRC of one frame for each opcode and network type.
    std::set<std::pair<NetworkType, uint8_t>> done;
    size_t wrong = 0, flips = 0;
    for_each_frame([&](const test::Frame& frame, const PacketView& original) {
        if (frame.size() > 400 || !done.insert({original.network, original.bth.opcode}).second) return;
        test::Frame copy = frame;
        const auto l3 = static_cast<size_t>(original.l3.data() - frame.data());
        for (size_t byte = 0; byte < original.l3.size() + kIcrcSize; ++byte) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                copy[l3 + byte] ^= static_cast<std::byte>(1u << bit);
                const std::span covered(copy.data() + l3, original.l3.size());
                const uint32_t stored = load_icrc(copy.data() + l3 + covered.size());
                const bool matches = icrc_of_packet(covered, original.network) == stored;
                wrong += matches != may_change(original.network, byte, bit);
                ++flips;
                copy[l3 + byte] = frame[l3 + byte];
            }
        }
    });
    CHECK(wrong == 0);
    CHECK(done.size() >= 20);
    CHECK(flips > 10000);
}
