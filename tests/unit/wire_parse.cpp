// SPDX-License-Identifier: BSD-3-Clause
// parse_frame: what it accepts, what is somebody else's frame, and one distinct drop reason for each kind of damage.
// Frames are built, then changed at one place. Read IBTA volume 1, 9.6 and annex A17.4.
#include <catch2/catch.hpp>
#include <functional>

#include "support/wire_frames.h"
#include "wire/ipv4.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::wire;

namespace {

constexpr size_t kIp = 14, kUdp = kIp + 20, kBth = kUdp + 8;  // offsets in an untagged IPv4 frame

AddressVector address(NetworkType network) {
    AddressVector a{.src_mac = {2, 0, 0, 0, 0, 1}, .dst_mac = {2, 0, 0, 0, 0, 2}, .network = network};
    a.src_gid = network == NetworkType::V2Ipv4 ? Gid::from_ipv4(0x0a000001) : *parse_gid("fe80::1");
    a.dst_gid = network == NetworkType::V2Ipv4 ? Gid::from_ipv4(0x0a000002) : *parse_gid("fe80::2");
    a.traffic_class = 0x68;
    a.flow_label = 0x12345;
    a.udp_source_port = 50000;
    return a;
}

test::Frame frame_of(NetworkType network, Opcode opcode = Opcode::RcSendOnly, size_t payload = 8) {
    const test::Frame data(payload, std::byte{0x5a});
    return test::make_frame(address(network), Bth{.opcode = static_cast<uint8_t>(opcode), .dest_qp = 0x11, .psn = 7},
                            {}, data);
}

void fix_ip_checksum(test::Frame& f) {
    store_be<uint16_t>(f.data() + kIp + 10, 0);
    store_be<uint16_t>(f.data() + kIp + 10, Ipv4Header::compute_checksum(f.data() + kIp));
}

ParseResult parse(const test::Frame& frame) {
    PacketView packet;
    return parse_frame(frame, packet);
}

using Change = std::function<void(test::Frame&)>;

DropReason reason_after(NetworkType network, const Change& change, Opcode opcode = Opcode::RcSendOnly,
                        size_t payload = 8) {
    auto frame = frame_of(network, opcode, payload);
    change(frame);
    const auto result = parse(frame);
    CHECK(result.kind == (result.reason == DropReason::None ? ParseResult::Kind::NotRoce : ParseResult::Kind::Drop));
    return result.reason;
}

Change set8(size_t at, uint8_t value) {
    return [=](test::Frame& f) { f[at] = std::byte{value}; };
}
Change set16_ip(size_t at, uint16_t value) {
    return [=](test::Frame& f) {
        store_be<uint16_t>(f.data() + at, value);
        fix_ip_checksum(f);
    };
}

constexpr auto kV4 = NetworkType::V2Ipv4;
constexpr auto kV6 = NetworkType::V2Ipv6;
constexpr auto kV1 = NetworkType::RoceV1;

}  // namespace

TEST_CASE("fields of each network type arrive") {
    for (const bool vlan : {false, true}) {
        for (const auto network : {kV1, kV4, kV6}) {
            auto a = address(network);
            a.has_vlan = vlan;
            a.vlan_tci = vlan ? 0x6005 : 0;
            const test::Frame data(5, std::byte{1});
            auto frame =
                test::make_frame(a, Bth{.opcode = 0x04, .dest_qp = 0x11, .ack_req = true, .psn = 7}, {}, data, 99);
            PacketView p;
            REQUIRE(parse_frame(frame, p).ok());
            CHECK(p.network == network);
            CHECK(p.src_mac == a.src_mac);
            CHECK(p.dst_mac == a.dst_mac);
            CHECK(p.has_vlan == vlan);
            CHECK(p.vlan_tci == a.vlan_tci);
            CHECK(p.src_gid == a.src_gid);
            CHECK(p.dst_gid == a.dst_gid);
            CHECK(p.dscp() == 0x1a);
            CHECK(p.ecn() == 0);
            CHECK(p.hop_limit == 64);
            CHECK(p.flow_label == (network == kV4 ? 0 : 0x12345));
            CHECK(p.ip_id == (network == kV4 ? 99 : 0));
            CHECK(p.udp_source_port == (network == kV1 ? 0 : 50000));
            CHECK(p.bth.dest_qp == 0x11);
            CHECK(p.bth.ack_req);
            CHECK(p.bth.psn == 7);
            CHECK(p.payload.size() == 5);
            CHECK(p.pad_count() == 3);
            CHECK(icrc_matches(p));
            CHECK(test::rebuild(p) == frame);
            // Ethernet pads short frames; layer 3 knows better.
            frame.resize(frame.size() + 6);
            PacketView padded;
            REQUIRE(parse_frame(frame, padded).ok());
            CHECK(padded.payload.size() == 5);
            CHECK(icrc_matches(padded));
        }
    }
}

TEST_CASE("MigReq, limited P_Key and reserved bits are accepted", "[9.2][10.9.3][case4]") {
    for (const auto& change :
         {set8(kBth + 1, 0x40), set8(kBth + 2, 0x7f), set8(kBth + 4, 0xff), set8(kBth + 8, 0x7f)}) {
        auto frame = frame_of(kV4);
        change(frame);
        CHECK(parse(frame).ok());
    }
}

TEST_CASE("frames of other protocols are left to others") {
    const auto not_roce = [](NetworkType network, const Change& change) {
        auto frame = frame_of(network);
        change(frame);
        return parse(frame).kind == ParseResult::Kind::NotRoce;
    };
    CHECK(not_roce(kV4, set8(12, 0x86)));        // EtherType
    CHECK(not_roce(kV4, set8(13, 0x06)));        // ARP
    CHECK(not_roce(kV4, set8(kIp + 9, 6)));      // TCP
    CHECK(not_roce(kV4, set8(kUdp + 3, 0xb8)));  // UDP port
    CHECK(not_roce(kV6, set8(14 + 6, 58)));      // ICMPv6: neighbour discovery
    CHECK(not_roce(kV6, set8(14 + 40 + 3, 0xb8)));
    CHECK(parse(test::from_hex("ffffffffffff 020000000001 0806 0001")).kind == ParseResult::Kind::NotRoce);
}

TEST_CASE("each kind of damage has its own drop reason", "[9.6][8.3.1][A17.3.1.1][case3]") {
    CHECK(parse({}).reason == DropReason::FrameTooShort);
    CHECK(reason_after(kV4, [](auto& f) { f.resize(kUdp + 7); }) == DropReason::FrameTooShort);
    CHECK(reason_after(kV6, [](auto& f) { f.resize(14 + 47); }) == DropReason::FrameTooShort);
    CHECK(reason_after(kV1, [](auto& f) { f.resize(14 + 39); }) == DropReason::FrameTooShort);
    CHECK(reason_after(kV4, set8(kIp, 0x65)) == DropReason::IpVersion);
    CHECK(reason_after(kV6, set8(kIp, 0x40)) == DropReason::IpVersion);
    CHECK(reason_after(kV1, set8(kIp, 0x40)) == DropReason::IpVersion);
    CHECK(reason_after(kV4, set8(kIp, 0x44)) == DropReason::IpOptions);
    CHECK(reason_after(kV4, [](test::Frame& f) {
              f.insert(f.begin() + kUdp, 4, std::byte{1});
              f[kIp] = std::byte{0x46};
          }) == DropReason::IpOptions);
    CHECK(reason_after(kV4, set16_ip(kIp + 6, 0x2000)) == DropReason::IpFragment);
    CHECK(reason_after(kV4, set16_ip(kIp + 6, 0x0001)) == DropReason::IpFragment);
    CHECK(reason_after(kV4, set8(kIp + 10, 0xee)) == DropReason::IpChecksum);
    CHECK(reason_after(kV4, set16_ip(kIp + 2, 400)) == DropReason::IpLength);
    CHECK(reason_after(kV4, set16_ip(kIp + 2, 27)) == DropReason::IpLength);
    CHECK(reason_after(kV6, set8(kIp + 4, 1)) == DropReason::IpLength);
    CHECK(reason_after(kV1, set8(kIp + 4, 1)) == DropReason::IpLength);
    CHECK(reason_after(kV1, set8(kIp + 6, 17)) == DropReason::GrhNextHeader);
    CHECK(reason_after(kV4, set8(kUdp + 5, 23)) == DropReason::UdpLength);
    CHECK(reason_after(kV4, set8(kUdp + 5, 255)) == DropReason::UdpLength);
    CHECK(reason_after(kV1, set8(kIp + 5, 12)) == DropReason::PacketTooShort);
    CHECK(reason_after(kV1, set8(kIp + 5, 18)) == DropReason::PacketLengthAlignment);
    CHECK(reason_after(kV4, set8(kBth + 1, 0x01)) == DropReason::TransportVersion);
    CHECK(reason_after(kV4, set8(kBth, 0xff)) == DropReason::UnknownOpcode);
    CHECK(reason_after(kV4, set8(kBth, 0x40)) == DropReason::UnknownOpcode);  // RD
    CHECK(reason_after(kV4, set8(kBth + 3, 0xfe)) == DropReason::PkeyMismatch);
    CHECK(reason_after(kV4, set8(kBth + 2, 0x00)) == DropReason::PkeyMismatch);
    CHECK(reason_after(kV4, set8(kBth + 7, 0)) == DropReason::DestQpZero);
    CHECK(reason_after(kV4, set8(kBth, 0x0a)) ==
          DropReason::ExtHeaderTooLong);  // WRITE ONLY needs 16 bytes, 8 are there
    CHECK(reason_after(kV4, set8(kBth + 1, 0x30), Opcode::RcSendOnly, 0) == DropReason::PadTooLong);
    CHECK(reason_after(kV4, set8(kBth, 0x11)) == DropReason::UnexpectedPayload);
}

TEST_CASE("a UDP length below 24 is too short for a packet", "[9.6][case3]") {
    // IP and UDP agree on 23 bytes: 48-byte frames with opcode 0xff look like this.
    auto frame = frame_of(kV4);
    frame.resize(kIp + 43);
    frame[kBth] = std::byte{0xff};
    store_be<uint16_t>(frame.data() + kIp + 2, 43);
    store_be<uint16_t>(frame.data() + kUdp + 4, 23);
    fix_ip_checksum(frame);
    CHECK(parse(frame).reason == DropReason::PacketTooShort);
    for (size_t size = 0; size < frame.size(); ++size) {
        auto cut = frame;
        cut.resize(size);
        CHECK_FALSE(parse(cut).ok());
    }
}
