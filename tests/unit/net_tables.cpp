// SPDX-License-Identifier: BSD-3-Clause
// GID table, neighbour table, address assembly, MTU rule, EUI-64.
#include <array>
#include <catch2/catch.hpp>

#include "net/address.h"
#include "net/eui64.h"
#include "net/gid_table.h"
#include "net/iboe_mtu.h"
#include "net/neighbour_table.h"

using namespace rocemu;
using net::RoceVersion;

namespace {

wire::Gid gid(const char* text) {
    return *wire::parse_gid(text);
}
constexpr wire::MacAddress kMac{2, 0, 0, 0, 0, 1}, kOther{2, 0, 0, 0, 0, 2};

}  // namespace

TEST_CASE("GID table has the order of a ConnectX") {
    net::GidTable table(16);
    const wire::Gid list[] = {gid("2001:db8::1"), gid("10.0.0.1"), gid("fe80::1"), gid("10.0.0.2")};
    REQUIRE(table.add(list));
    const char* order[] = {"fe80::1", "10.0.0.1", "10.0.0.2", "2001:db8::1"};
    for (uint32_t i = 0; i < 8; ++i) {
        REQUIRE(table.at(i));
        CHECK(table.at(i)->gid == gid(order[i / 2]));
        CHECK(table.at(i)->version == (i % 2 ? RoceVersion::V2 : RoceVersion::V1));
    }
    CHECK(table.at(8) == nullptr);
    CHECK(table.at(1000) == nullptr);
    CHECK(table.find(gid("10.0.0.2"), RoceVersion::V2) == 5u);
    CHECK(table.addresses().size() == 4);
}

TEST_CASE("GID indices stay; holes are filled last") {
    net::GidTable table(6);
    const wire::Gid first[] = {gid("fe80::1"), gid("10.0.0.1")};
    table.add(first);
    CHECK(table.remove(gid("fe80::1")));
    CHECK_FALSE(table.remove(gid("fe80::1")));
    CHECK(table.find(gid("10.0.0.1"), RoceVersion::V1) == 2u);
    const wire::Gid more[] = {gid("10.0.0.2"), gid("10.0.0.3")};
    CHECK(table.add(more));
    CHECK(table.find(gid("10.0.0.2"), RoceVersion::V1) == 4u);
    CHECK(table.find(gid("10.0.0.3"), RoceVersion::V1) == 0u);
    const wire::Gid none[] = {gid("10.0.0.4")};
    CHECK_FALSE(table.add(none));
    CHECK(table.add(more));  // already there
}

TEST_CASE("active MTU follows the kernel's rule") {
    CHECK(net::iboe_mtu(1500) == 3);
    CHECK(net::iboe_mtu(4191) == 4);
    CHECK(net::iboe_mtu(4192) == 5);
    CHECK(net::iboe_mtu(9000) == 5);
    CHECK(net::iboe_mtu(352) == 1);
    CHECK(net::iboe_mtu(351) == 0);
    CHECK(net::mtu_bytes(5) == 4096);
}

TEST_CASE("EUI-64 both ways") {
    const wire::MacAddress mac{0x02, 0x52, 0x4f, 1, 2, 3};
    CHECK(net::guid_of(mac) == 0x00524ffffe010203);
    CHECK(net::link_local_gid(mac) == gid("fe80::52:4fff:fe01:203"));
    CHECK(net::mac_of_link_local(net::link_local_gid(mac)) == mac);
    CHECK_FALSE(net::mac_of_link_local(gid("fe80::1")));
    CHECK_FALSE(net::mac_of_link_local(gid("2001:db8::52:4fff:fe01:203")));
}

using News = net::NeighbourTable::News;

TEST_CASE("neighbour: asked for, answered, aged, asked again") {
    net::NeighbourTable table;
    std::array<wire::Gid, 4> out;
    const auto a = gid("10.0.0.9");
    CHECK(table.learn(a, kMac, {0}) == News::None);  // nobody asked: not taken
    CHECK(table.size() == 0);
    CHECK(table.resolve(a, {0}));
    CHECK_FALSE(table.lookup(a));
    CHECK(table.poll_requests({0}, out) == 1);
    CHECK(out[0] == a);
    CHECK(table.poll_requests({1}, out) == 0);
    CHECK(table.next_deadline() == Instant{net::NeighbourTable::kRetry});
    CHECK(table.learn(a, {1, 0, 0, 0, 0, 1}, {5}) == News::None);  // a group's
    CHECK_FALSE(table.lookup(a));
    CHECK(table.learn(a, kMac, {5}) == News::Known);
    CHECK(table.lookup(a) == kMac);

    const Instant late{5 + net::NeighbourTable::kReachable};
    CHECK(table.poll_requests(late, out) == 0);
    CHECK(table.state_of(a) == net::NeighbourTable::State::Stale);
    CHECK(table.lookup(a) == kMac);
    CHECK(table.resolve(a, late));
    CHECK(table.poll_requests(late, out) == 1);
    CHECK(table.lookup(a) == kMac);  // still used while it is asked for again
    CHECK(table.learn(a, kOther, late) == News::Moved);
    CHECK(table.lookup(a) == kOther);
}

TEST_CASE("neighbour: nobody answers") {
    net::NeighbourTable table;
    std::array<wire::Gid, 4> out;
    const auto a = gid("10.0.0.9");
    table.resolve(a, {0});
    Instant now{0};
    size_t asked = 0, failed = 0;
    for (int i = 0; i < 10 && failed == 0; ++i) {
        asked += table.poll_requests(now, out);
        failed = table.poll_failures(out);
        now = now + net::NeighbourTable::kRetry;
    }
    CHECK(asked == net::NeighbourTable::kTries);
    CHECK(failed == 1);
    CHECK_FALSE(table.lookup(a));
    const Instant soon{net::NeighbourTable::kTries * net::NeighbourTable::kRetry + 1};
    CHECK_FALSE(table.resolve(a, soon));
    CHECK(table.resolve(a, soon + net::NeighbourTable::kFailedHold));
    CHECK(table.poll_failures(out) == 0);
}

TEST_CASE("neighbour: a full table gives up old entries, none that is searched for") {
    net::NeighbourTable table(2);
    std::array<wire::Gid, 4> out;
    CHECK(table.resolve(gid("10.0.0.1"), {0}));
    CHECK(table.resolve(gid("10.0.0.2"), {0}));
    CHECK_FALSE(table.resolve(gid("10.0.0.3"), {0}));
    table.learn(gid("10.0.0.1"), kMac, {0});
    table.poll_requests({net::NeighbourTable::kReachable}, out);
    CHECK(table.resolve(gid("10.0.0.3"), {net::NeighbourTable::kReachable}));
    CHECK_FALSE(table.lookup(gid("10.0.0.1")));
    // Who still uses what was given up may use an old MAC address.
    CHECK(table.learn(gid("10.0.0.3"), kMac, {net::NeighbourTable::kReachable}) == News::Moved);
    CHECK(table.resolve(gid("10.0.0.4"), {net::NeighbourTable::kReachable}));
    CHECK(table.state_of(gid("10.0.0.2")) == net::NeighbourTable::State::Incomplete);
    CHECK_FALSE(table.lookup(gid("10.0.0.3")));
}

TEST_CASE("GID table: an address of a VLAN has its tag, a renamed one its index", "[net][case30][case31]") {
    net::GidTable table(16);
    const wire::Gid port[] = {gid("fe80::1"), gid("10.0.0.1")}, tagged[] = {gid("10.5.0.1")};
    table.add(port);
    table.add(tagged, 5);
    REQUIRE(table.find(tagged[0], net::RoceVersion::V2) == 5u);
    CHECK(table.at(4)->vlan == 5);
    CHECK(table.at(5)->vlan == 5);
    CHECK(table.at(3)->vlan == wire::kNoVlan);

    net::AddressRequest r;
    r.is_global = true;
    r.dgid = gid("10.5.0.2");
    r.sgid_index = 5;
    r.sl = 3;
    wire::AddressVector av;
    REQUIRE(net::assemble(table, r, av) == net::AddressError::None);
    CHECK(av.has_vlan);
    CHECK(av.vlan_tci == (3 << 13 | 5));
    CHECK(av.vlan() == 5);
    r.sgid_index = 3;
    REQUIRE(net::assemble(table, r, av) == net::AddressError::None);
    CHECK_FALSE(av.has_vlan);

    table.rename(gid("fe80::1"), gid("fe80::2"));
    CHECK(table.at(0)->gid == gid("fe80::2"));
    CHECK(table.at(1)->gid == gid("fe80::2"));
    CHECK_FALSE(table.find(gid("fe80::1"), net::RoceVersion::V1));
}

TEST_CASE("address vector: complete or refused by name") {
    net::GidTable table(16);
    const wire::Gid list[] = {gid("fe80::1"), gid("10.0.0.1")};
    table.add(list);
    net::AddressRequest r;
    r.is_global = true;
    r.dgid = gid("10.0.0.2");
    r.sgid_index = 3;
    r.hop_limit = 1;
    r.traffic_class = 0xff;
    r.local_qpn = 0x11;
    r.remote_qpn = 0x12;
    wire::AddressVector av;
    REQUIRE(net::assemble(table, r, av) == net::AddressError::None);
    CHECK(av.network == wire::NetworkType::V2Ipv4);
    CHECK(av.src_gid == gid("10.0.0.1"));
    CHECK(av.hop_limit == 64);
    CHECK(av.traffic_class == 0xfc);
    CHECK(av.udp_source_port == 49458);  // recorded from Linux for this pair of QPs

    // The type of the SGID's entry decides: the v1 entry of the same address means GRH, without UDP.
    r.sgid_index = 2;
    REQUIRE(net::assemble(table, r, av) == net::AddressError::None);
    CHECK(av.network == wire::NetworkType::RoceV1);
    CHECK(av.src_gid == gid("10.0.0.1"));
    r.sgid_index = 3;

    const auto refused = [&](auto change) {
        net::AddressRequest bad = r;
        change(bad);
        return net::assemble(table, bad, av);
    };
    CHECK(refused([](auto& x) { x.is_global = false; }) == net::AddressError::NoGrh);
    CHECK(refused([](auto& x) { x.sgid_index = 9; }) == net::AddressError::NoSuchSgid);
    CHECK(refused([](auto& x) { x.sgid_index = 1; }) == net::AddressError::FamilyDiffers);
    CHECK(refused([](auto& x) { x.dgid = gid("224.0.0.1"); }) == net::AddressError::BadDgid);
    CHECK(refused([](auto& x) { x.dgid = {}; }) == net::AddressError::BadDgid);
    CHECK(refused([](auto& x) { x.sl = 8; }) == net::AddressError::BadSl);
}
