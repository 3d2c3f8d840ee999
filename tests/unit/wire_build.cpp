// SPDX-License-Identifier: BSD-3-Clause
// HeaderTemplate and ICRC against known frames: a CNP of a ConnectX-4 Lx and a UC SEND, both with known ICRC; every
// opcode over every network type built and parsed again; pad bytes; RoCE v1 mask. Read IBTA annex A17.3, A17.9.
#include <catch2/catch.hpp>

#include "support/wire_frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::wire;

namespace {

AddressVector address(NetworkType network) {
    AddressVector a{.src_mac = {2, 0, 0, 0, 0, 1}, .dst_mac = {2, 0, 0, 0, 0, 2}, .network = network};
    a.src_gid = network == NetworkType::V2Ipv4 ? Gid::from_ipv4(0xc0a80001) : *parse_gid("fd00::1");
    a.dst_gid = network == NetworkType::V2Ipv4 ? Gid::from_ipv4(0xc0a80002) : *parse_gid("fd00::2");
    a.udp_source_port = network == NetworkType::RoceV1 ? 0 : 49152;
    return a;
}

ExtHeaders some_extensions() {
    return {.xrceth = {0x123456},
            .deth = {0x11111111, 0x222222},
            .feth = {1, 3},
            .reth = {0x1000, 0x33, 64},
            .atomic_eth = {0x2000, 0x44, 5, 6},
            .aeth = Aeth::nak(9, NakCode::RemoteAccessError),
            .atomic_ack_eth = {77},
            .immdt = {0xcafef00d},
            .ieth = {0x55}};
}

}  // namespace

TEST_CASE("the CNP a ConnectX-4 Lx sends") {
    const auto golden = test::from_hex(
        "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a00120100"
        "0012b7002800008100ffff4000011800000000 00000000000000000000000000000000 82fd002a");
    PacketView p;
    REQUIRE(parse_frame(golden, p).ok());
    CHECK(p.opcode() == Opcode::Cnp);
    CHECK(p.bth.becn);
    CHECK_FALSE(p.bth.mig_req);
    CHECK(p.bth.dest_qp == 0x118);
    CHECK(p.dscp() == 48);
    CHECK(p.ecn() == 2);
    CHECK(p.payload.size() == 16);
    CHECK(icrc_matches(p));

    const AddressVector a{.src_mac = {0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32},
                          .dst_mac = {0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2},
                          .src_gid = Gid::from_ipv4(0x0a001101),
                          .dst_gid = Gid::from_ipv4(0x0a001201),
                          .traffic_class = 48 << 2,
                          .ecn = 2,
                          .udp_source_port = 0};
    const test::Frame zeros(16);
    CHECK(test::make_frame(a, Bth{.opcode = 0x81, .becn = true, .dest_qp = 0x118}, {}, zeros, 0x718c) == golden);

    // Quoted elsewhere with this ICRC, which is wrong.
    auto invalid = golden;
    const auto icrc = test::from_hex("e42dad81");
    std::copy(icrc.begin(), icrc.end(), invalid.end() - 4);
    REQUIRE(parse_frame(invalid, p).ok());
    CHECK_FALSE(icrc_matches(p));
}

TEST_CASE("a UC SEND ONLY with MigReq and two pad bytes") {
    const AddressVector a{.src_gid = Gid::from_ipv4(0xc0a80007),
                          .dst_gid = Gid::from_ipv4(0xc0a80007),
                          .ecn = 1,
                          .udp_source_port = 49152};
    const auto payload = test::from_hex("4630818be289 35d90e9a95505401be885e50");
    const auto frame =
        test::make_frame(a, Bth{.opcode = 0x24, .mig_req = true, .dest_qp = 211, .psn = 13571856}, {}, payload, 1144);
    REQUIRE(frame.size() == 14 + 64);
    CHECK(test::Frame(frame.end() - 4, frame.end()) == test::from_hex("78f353f3"));
    CHECK(test::Frame(frame.begin() + 42, frame.begin() + 46) == test::from_hex("2460ffff"));
    CHECK(load_be<uint16_t>(frame.data() + 14 + 2) == 64);
    CHECK(load_be<uint16_t>(frame.data() + 34 + 4) == 44);
}

TEST_CASE("every opcode over every network type comes back as it was built", "[A17.3.1]") {
    size_t built = 0;
    for (const auto network : {NetworkType::RoceV1, NetworkType::V2Ipv4, NetworkType::V2Ipv6}) {
        for (const bool vlan : {false, true}) {
            for (unsigned code = 0; code < 256; ++code) {
                const auto& op = opcode_info(static_cast<uint8_t>(code));
                if (!op.valid()) continue;
                auto a = address(network);
                a.has_vlan = vlan;
                const test::Frame payload(op.has_payload ? 13 : 0, std::byte{0x33});
                const auto frame = test::make_frame(
                    a, Bth{.opcode = static_cast<uint8_t>(code), .dest_qp = 5, .psn = 6}, some_extensions(), payload);
                PacketView p;
                INFO(op.name);
                REQUIRE(parse_frame(frame, p).ok());
                CHECK(icrc_matches(p));
                CHECK(p.headers().size() + static_cast<size_t>(p.l3.data() - frame.data()) ==
                      HeaderTemplate(a).header_size(static_cast<uint8_t>(code)));
                CHECK(test::rebuild(p) == frame);
                if (op.has(ext::kReth)) CHECK(p.reth().rkey == 0x33);
                if (op.has(ext::kImmDt)) CHECK(p.immdt().data == 0xcafef00d);
                if (op.has(ext::kXrcEth)) CHECK(p.xrceth().srqn == 0x123456);
                ++built;
            }
        }
    }
    CHECK(built == 6 * 65);
}

TEST_CASE("build writes no byte behind its room") {
    for (const auto network : {NetworkType::RoceV1, NetworkType::V2Ipv4, NetworkType::V2Ipv6}) {
        const HeaderTemplate headers(address(network));
        for (unsigned code = 0; code < 256; ++code) {
            if (!opcode_info(static_cast<uint8_t>(code)).valid()) continue;
            test::Frame out(kMaxHeaders);  // exactly: the sanitizer build sees more
            const size_t size = headers.build(out.data(), Bth{.opcode = static_cast<uint8_t>(code)}, {}, 4096, 0);
            CHECK(size == headers.header_size(static_cast<uint8_t>(code)));
            CHECK(size <= kMaxHeaders);
        }
    }
}

TEST_CASE("pad bytes are sent and covered by the ICRC", "[9.2.1][case1]") {
    for (const size_t size : {1, 2, 3, 4, 5, 1023, 1025}) {
        const test::Frame payload(size, std::byte{0x77});
        auto frame = test::make_frame(address(NetworkType::V2Ipv4), Bth{.opcode = 0x04, .dest_qp = 5}, {}, payload);
        CHECK(frame.size() == 14 + 20 + 8 + 12 + (size + 3) / 4 * 4 + 4);
        PacketView p;
        REQUIRE(parse_frame(frame, p).ok());
        CHECK(p.payload.size() == size);
        CHECK(icrc_matches(p));
        if (p.pad_count() == 0) continue;
        frame[frame.size() - 5] ^= std::byte{1};
        CHECK_FALSE(icrc_matches(p));
    }
}

TEST_CASE("the low bits of the traffic class are the NIC's", "[case34]") {
    auto a = address(NetworkType::V2Ipv4);
    a.traffic_class = 0xff;
    a.ecn = 0;
    PacketView p;
    const auto frame = test::make_frame(a, Bth{.opcode = 0x04, .dest_qp = 5}, {}, {});
    REQUIRE(parse_frame(frame, p).ok());
    CHECK(p.traffic_class == 0xfc);
}

TEST_CASE("RoCE v1: the ICRC ignores traffic class, flow label, hop limit and the reserved byte of the BTH",
          "[case2]") {
    const test::Frame payload(8, std::byte{1});
    auto frame = test::make_frame(address(NetworkType::RoceV1), Bth{.opcode = 0x04, .dest_qp = 5}, {}, payload);
    PacketView p;
    REQUIRE(parse_frame(frame, p).ok());
    for (size_t byte = 0; byte < p.l3.size(); ++byte) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            frame[14 + byte] ^= static_cast<std::byte>(1u << bit);
            const bool masked = (byte == 0 && bit < 4) || (byte >= 1 && byte <= 3) || byte == 7 || byte == 44;
            CHECK((icrc_of_packet(p.l3, p.network) == p.icrc) == masked);
            frame[14 + byte] ^= static_cast<std::byte>(1u << bit);
        }
    }
}

TEST_CASE("icrc_of_packet is safe for any size") {
    for (size_t size = 0; size < 200; ++size) {
        const test::Frame bytes(size);
        for (const auto network : {NetworkType::RoceV1, NetworkType::V2Ipv4, NetworkType::V2Ipv6})
            CHECK(icrc_of_packet(bytes, network) == icrc_of_packet(bytes, network));
    }
}
