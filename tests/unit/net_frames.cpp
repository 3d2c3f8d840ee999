// SPDX-License-Identifier: BSD-3-Clause
// ARP and neighbour discovery frames: what we build is understood, what is malformed is not, and golden bytes.
#include <catch2/catch.hpp>
#include <vector>

#include "net/arp.h"
#include "net/group_report.h"
#include "net/internet_checksum.h"
#include "net/neighbour_discovery.h"

using namespace rocemu;

namespace {

constexpr wire::MacAddress kUs{2, 0, 0, 0, 0, 1}, kPeer{2, 0, 0, 0, 0, 2};

std::vector<std::byte> bytes(std::initializer_list<int> list) {
    std::vector<std::byte> v;
    for (int b : list) v.push_back(static_cast<std::byte>(b));
    return v;
}
auto body(const auto& frame) {
    return std::span<const std::byte>(frame).subspan(wire::EthHeader::kSize);
}

}  // namespace

TEST_CASE("ARP request has the bytes of RFC 826") {
    const auto frame = net::arp_request(kUs, 0x0a000001, 0x0a000002);
    const auto golden = bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0,  0, 0, 0, 1, 8, 6, 0, 1, 8, 0,  6, 4, 0,
                               1,    2,    0,    0,    0,    0,    1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2});
    CHECK(std::equal(golden.begin(), golden.end(), frame.begin()));
    CHECK(frame.size() == 60);
}

TEST_CASE("ARP reply answers the request") {
    const auto request = net::ArpPacket::parse(body(net::arp_request(kPeer, 0x0a000002, 0x0a000001)));
    REQUIRE(request);
    CHECK(request->tells_sender());
    const auto frame = net::arp_reply(kUs, *request);
    CHECK(wire::EthHeader::parse(frame.data()).dst == kPeer);
    const auto reply = net::ArpPacket::parse(body(frame));
    REQUIRE(reply);
    CHECK(reply->operation == net::ArpOperation::Reply);
    CHECK(reply->sender_mac == kUs);
    CHECK(reply->sender_ip == 0x0a000001);
    CHECK(reply->target_ip == 0x0a000002);
}

TEST_CASE("ARP: short, foreign or odd packets are not understood") {
    auto frame = net::arp_request(kUs, 1, 2);
    CHECK_FALSE(net::ArpPacket::parse(body(frame).first(27)));
    for (const size_t at : {1u, 2u, 4u, 5u, 7u}) {
        auto bad = frame;
        bad[wire::EthHeader::kSize + at] ^= std::byte{0x40};
        CHECK_FALSE(net::ArpPacket::parse(body(bad)));
    }
    const auto probe = net::ArpPacket::parse(body(net::arp_request(kUs, 0, 2)));
    REQUIRE(probe);
    CHECK_FALSE(probe->tells_sender());
}

TEST_CASE("neighbour solicitation and its advertisement") {
    const auto ours = *wire::parse_gid("2001:db8::1"), theirs = *wire::parse_gid("2001:db8::ab:cdef");
    const auto ask = net::neighbour_solicitation(kUs, ours, theirs);
    const auto eth = wire::EthHeader::parse(ask.data());
    CHECK(eth.dst == wire::MacAddress{0x33, 0x33, 0xff, 0xab, 0xcd, 0xef});
    const auto asked = net::NdMessage::parse(body(ask), eth);
    REQUIRE(asked);
    CHECK(asked->solicitation);
    CHECK(asked->target == theirs);
    CHECK(asked->link_address == kUs);

    const auto answer = net::neighbour_advertisement(kPeer, *asked);
    const auto answer_eth = wire::EthHeader::parse(answer.data());
    CHECK(answer_eth.dst == kUs);
    const auto told = net::NdMessage::parse(body(answer), answer_eth);
    REQUIRE(told);
    CHECK_FALSE(told->solicitation);
    CHECK(told->target == theirs);
    CHECK(told->source == theirs);
    CHECK(told->link_address == kPeer);
}

TEST_CASE("neighbour discovery: one flipped bit anywhere in the message fails its checksum") {
    const auto frame = net::neighbour_solicitation(kUs, *wire::parse_gid("fe80::1"), *wire::parse_gid("fe80::2"));
    for (size_t at = wire::EthHeader::kSize + 40; at < frame.size(); ++at) {
        auto bad = frame;
        bad[at] ^= std::byte{1};
        CHECK_FALSE(net::NdMessage::parse(body(bad), wire::EthHeader::parse(bad.data())));
    }
    auto far = frame;  // RFC 4861 7.1.1: only hop limit 255 is from the link
    far[wire::EthHeader::kSize + 7] = std::byte{64};
    CHECK_FALSE(net::NdMessage::parse(body(far), wire::EthHeader::parse(far.data())));
    CHECK_FALSE(net::NdMessage::parse(body(frame).first(50), wire::EthHeader::parse(frame.data())));
}

TEST_CASE("group reports: IGMPv3 and MLDv2, with their checksums") {
    const auto v4 = net::GroupReport(kUs, wire::Gid::from_ipv4(0x0a000001), wire::Gid::from_ipv4(0xef010203), net::GroupChange::Joined);
    const auto b = v4.bytes();
    CHECK(b.size() == 60);
    CHECK(wire::EthHeader::parse(b.data()).dst == wire::MacAddress{0x01, 0x00, 0x5e, 0, 0, 0x16});
    const auto ip = b.subspan(wire::EthHeader::kSize);
    CHECK(net::internet_checksum(ip.first(24)) == 0);
    CHECK(net::internet_checksum(ip.subspan(24, 16)) == 0);
    CHECK(ip[8] == std::byte{1});
    CHECK(load_be<uint32_t>(ip.data() + 12) == 0x0a000001);
    CHECK(ip[24] == std::byte{0x22});
    CHECK(ip[32] == std::byte{4});
    CHECK(load_be<uint32_t>(ip.data() + 36) == 0xef010203);

    const auto own = *wire::parse_gid("fe80::1"), group = *wire::parse_gid("ff0e::1234:5678"), routers = *wire::parse_gid("ff02::16");
    const auto v6 = net::GroupReport(kUs, own, group, net::GroupChange::Left);
    const auto c = v6.bytes();
    CHECK(wire::EthHeader::parse(c.data()).dst == wire::MacAddress{0x33, 0x33, 0, 0, 0, 0x16});
    const auto message = c.subspan(wire::EthHeader::kSize + 40 + 8);
    CHECK(message.size() == 28);
    CHECK(net::icmpv6_checksum(own, routers, message) == 0);
    CHECK(message[0] == std::byte{143});
    CHECK(message[8] == std::byte{3});
    CHECK(wire::Gid::from_bytes(message.data() + 12) == group);
    CHECK(c[wire::EthHeader::kSize + 7] == std::byte{1});
}

TEST_CASE("duplicate address detection is answered to everybody") {
    net::NdMessage asked;
    asked.solicitation = true;
    asked.target = *wire::parse_gid("2001:db8::1");
    const auto frame = net::neighbour_advertisement(kUs, asked);
    CHECK(wire::EthHeader::parse(frame.data()).dst == wire::MacAddress{0x33, 0x33, 0, 0, 0, 1});
}
