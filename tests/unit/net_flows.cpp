// SPDX-License-Identifier: BSD-3-Clause
// What flow rules and receive hashing see of a frame: the fields of every kind of header, nothing of what is cut off, and
// the hash against the published vectors ("Verifying the RSS hash calculation", Microsoft).
#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "net/rx_hash.h"
#include "wire/flow_key.h"

using namespace rocemu;

namespace {

std::vector<std::byte> bytes_of(const std::string& hex) {
    std::vector<std::byte> out;
    std::string digits;
    for (const char c : hex)
        if (c != ' ') digits += c;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        out.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return out;
}

const std::string kMacs = "0250 0000 0001 0250 0000 0002 ";
const std::string kIpv4 = "4500 0028 0000 4000 40 11 0000 0a000001 0a000002 ";
const std::string kIpv4Options = "4600 002c 0000 4000 40 06 0000 0a000001 0a000002 01010101 ";
const std::string kIpv4Fragment = "4500 0028 0000 2001 40 11 0000 0a000001 0a000002 ";
const std::string kIpv6 = "6abc 1234 0010 11 07 20010db8000000000000000000000001 20010db8000000000000000000000002 ";
const std::string kPorts = "1234 5678 0000 0000 0000";

template <size_t N>
uint32_t number(const uint8_t (&raw)[N]) {
    uint32_t v = 0;
    for (const uint8_t b : raw) v = v << 8 | b;
    return v;
}

}  // namespace

TEST_CASE("fields of IPv4, with options, as a fragment, behind a VLAN tag", "[net]") {
    const auto udp = wire::flow_key_of(bytes_of(kMacs + "0800 " + kIpv4 + kPorts));
    CHECK(udp.dst_mac[5] == 1);
    CHECK(udp.src_mac[5] == 2);
    CHECK(number(udp.ether_type) == 0x0800);
    CHECK(udp.l3 == 4);
    CHECK(udp.l4 == FlowKey::kUdp);
    CHECK(udp.hop_limit == 0x40);
    CHECK(udp.ip_flags == 2);
    CHECK(udp.src_ip[3] == 1);
    CHECK(udp.dst_ip[3] == 2);
    CHECK(number(udp.src_port) == 0x1234);
    CHECK(number(udp.dst_port) == 0x5678);

    const auto tcp = wire::flow_key_of(bytes_of(kMacs + "0800 " + kIpv4Options + kPorts));
    CHECK(tcp.l4 == FlowKey::kTcp);
    CHECK(number(tcp.src_port) == 0x1234);

    const auto fragment = wire::flow_key_of(bytes_of(kMacs + "0800 " + kIpv4Fragment + kPorts));
    CHECK(fragment.l3 == 4);
    CHECK(fragment.l4 == 0);
    CHECK(number(fragment.src_port) == 0);

    const auto tagged = wire::flow_key_of(bytes_of(kMacs + "8100 a005 0800 " + kIpv4 + kPorts));
    CHECK(number(tagged.vlan_tci) == 0xa005);
    CHECK(number(tagged.ether_type) == 0x0800);
    CHECK(number(tagged.dst_port) == 0x5678);
}

TEST_CASE("fields of IPv6", "[net]") {
    const auto key = wire::flow_key_of(bytes_of(kMacs + "86dd " + kIpv6 + kPorts));
    CHECK(key.l3 == 6);
    CHECK(key.l4 == FlowKey::kUdp);
    CHECK(key.traffic_class == 0xab);
    CHECK(number(key.flow_label) == 0xc1234);
    CHECK(key.hop_limit == 7);
    CHECK(key.src_ip[15] == 1);
    CHECK(key.dst_ip[15] == 2);
    CHECK(number(key.dst_port) == 0x5678);
}

TEST_CASE("a frame cut anywhere has only what is there", "[net]") {
    for (const auto& text : {kMacs + "0800 " + kIpv4 + kPorts, kMacs + "8100 a005 86dd " + kIpv6 + kPorts,
                             kMacs + "0800 " + kIpv4Options + kPorts}) {
        const auto whole = bytes_of(text);
        for (size_t n = 0; n < whole.size(); ++n) {
            const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
            const auto key = wire::flow_key_of(cut);  // ASan sees what is read behind it
            if (n < 14) CHECK(number(key.ether_type) == 0);
            if (n < 34) CHECK(key.l3 == 0);
            if (n < 38) CHECK(key.l4 == 0);
        }
    }
    // A header length below the least is no header.
    CHECK(wire::flow_key_of(bytes_of(kMacs + "0800 44" + kIpv4.substr(2) + kPorts)).l3 == 0);
}

TEST_CASE("a rule is for what its mask covers", "[net]") {
    const auto frame = wire::flow_key_of(bytes_of(kMacs + "0800 " + kIpv4 + kPorts));
    FlowKey rule, mask;
    CHECK(fits(frame, rule, mask));
    mask.l4 = 0xff;
    rule.l4 = FlowKey::kTcp;
    CHECK_FALSE(fits(frame, rule, mask));
    rule.l4 = FlowKey::kUdp;
    mask.dst_port[0] = 0xff;
    rule.dst_port[0] = 0x56;
    CHECK(fits(frame, rule, mask));
    rule.dst_port[1] = 0x99;  // outside of the mask
    CHECK(fits(frame, masked(rule, mask), mask));
}

TEST_CASE("Toeplitz gives the published values", "[net]") {
    net::RxHash hash;
    hash.key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
                0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
                0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
    struct Vector {
        int family;
        const char *source, *destination;
        uint16_t source_port, destination_port;
        uint32_t addresses, all;
    };
    const Vector vectors[] = {
        {AF_INET, "66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
        {AF_INET, "199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
        {AF_INET, "24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
        {AF_INET6, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    };
    for (const Vector& v : vectors) {
        FlowKey key;
        const bool v4 = v.family == AF_INET;
        key.l3 = v4 ? 4 : 6;
        key.l4 = FlowKey::kTcp;
        REQUIRE(inet_pton(v.family, v.source, key.src_ip) == 1);
        REQUIRE(inet_pton(v.family, v.destination, key.dst_ip) == 1);
        key.src_port[0] = static_cast<uint8_t>(v.source_port >> 8);
        key.src_port[1] = static_cast<uint8_t>(v.source_port);
        key.dst_port[0] = static_cast<uint8_t>(v.destination_port >> 8);
        key.dst_port[1] = static_cast<uint8_t>(v.destination_port);
        hash.fields = v4 ? net::rx_hash_fields::kIpv4 : net::rx_hash_fields::kIpv6;
        CHECK(net::rx_hash_of(hash, key) == v.addresses);
        hash.fields |= net::rx_hash_fields::kTcp;
        CHECK(net::rx_hash_of(hash, key) == v.all);
        key.l4 = FlowKey::kUdp;
        CHECK(net::rx_hash_of(hash, key) == 0);
    }
    CHECK_FALSE(net::valid_rx_hash_fields(net::rx_hash_fields::kSrcIpv4 | net::rx_hash_fields::kDstIpv6));
    CHECK_FALSE(net::valid_rx_hash_fields(net::rx_hash_fields::kTcp | net::rx_hash_fields::kUdp));
    CHECK_FALSE(net::valid_rx_hash_fields(1u << 8));
    CHECK(net::valid_rx_hash_fields(net::rx_hash_fields::kIpv4 | net::rx_hash_fields::kUdp));
}
