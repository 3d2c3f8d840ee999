// SPDX-License-Identifier: BSD-3-Clause
// Single headers of lib/wire: field positions against bytes written by hand, round trips, AETH syndromes, credit codes,
// text forms of addresses, the UDP source port. Read IBTA volume 1, 9.2 to 9.3 and annex A17.3.1.3.
#include <catch2/catch.hpp>

#include "support/wire_frames.h"
#include "wire/aeth.h"
#include "wire/bth.h"
#include "wire/eth.h"
#include "wire/gid.h"
#include "wire/grh.h"
#include "wire/ipv4.h"
#include "wire/opcode.h"
#include "wire/udp.h"

using namespace rocemu;
using namespace rocemu::wire;

namespace {

// Writing what was parsed gives the same bytes.
template <typename Header>
bool round_trips(const test::Frame& bytes) {
    REQUIRE(bytes.size() == Header::kSize);
    test::Frame out(bytes.size());
    Header::parse(bytes.data()).write(out.data());
    return out == bytes;
}

}  // namespace

TEST_CASE("BTH fields sit where the specification puts them", "[9.2]") {
    const auto bytes = test::from_hex("17e0fffe c0123456 80abcdef");
    const auto h = Bth::parse(bytes.data());
    CHECK(h.opcode == 0x17);
    CHECK(h.solicited);
    CHECK(h.mig_req);
    CHECK(h.pad_count == 2);
    CHECK(h.tver == 0);
    CHECK(h.pkey == 0xfffe);
    CHECK(h.fecn);
    CHECK(h.becn);
    CHECK(h.dest_qp == 0x123456);
    CHECK(h.ack_req);
    CHECK(h.psn == 0xabcdef);
    CHECK(round_trips<Bth>(bytes));

    // IBTA 9.2: reserved bits are ignored and written as zero.
    const auto reserved = test::from_hex("17e0fffe ff123456 ffabcdef");
    test::Frame out(Bth::kSize);
    Bth::parse(reserved.data()).write(out.data());
    CHECK(out == bytes);
}

TEST_CASE("extension headers") {
    const auto reth_bytes = test::from_hex("0102030405060708 0a0b0c0d 00100000");
    const auto reth = Reth::parse(reth_bytes.data());
    CHECK(reth.va == 0x0102030405060708);
    CHECK(reth.rkey == 0x0a0b0c0d);
    CHECK(reth.length == 0x100000);
    CHECK(round_trips<Reth>(reth_bytes));

    const auto atomic_bytes = test::from_hex("0102030405060708 0a0b0c0d 1112131415161718 2122232425262728");
    const auto atomic = AtomicEth::parse(atomic_bytes.data());
    CHECK(atomic.rkey == 0x0a0b0c0d);
    CHECK(atomic.swap_or_add == 0x1112131415161718);
    CHECK(atomic.compare == 0x2122232425262728);
    CHECK(round_trips<AtomicEth>(atomic_bytes));

    const auto deth_bytes = test::from_hex("80010000 00000001");
    CHECK(Deth::parse(deth_bytes.data()).qkey == 0x80010000);
    CHECK(Deth::parse(deth_bytes.data()).src_qp == 1);
    CHECK(round_trips<Deth>(deth_bytes));

    CHECK(round_trips<AtomicAckEth>(test::from_hex("0102030405060708")));
    CHECK(ImmDt::parse(test::from_hex("01020304").data()).data == 0x01020304);
    CHECK(round_trips<ImmDt>(test::from_hex("01020304")));
    CHECK(round_trips<Ieth>(test::from_hex("01020304")));
    CHECK(XrcEth::parse(test::from_hex("00abcdef").data()).srqn == 0xabcdef);
    CHECK(round_trips<XrcEth>(test::from_hex("00abcdef")));
    CHECK(Feth::parse(test::from_hex("00000012").data()).selectivity == 1);
    CHECK(Feth::parse(test::from_hex("00000012").data()).placement == 2);
    CHECK(round_trips<Feth>(test::from_hex("00000012")));
    CHECK(round_trips<VlanTag>(test::from_hex("60050800")));
    CHECK(VlanTag::parse(test::from_hex("60050800").data()).vid() == 5);
    CHECK(VlanTag::parse(test::from_hex("60050800").data()).pcp() == 3);
}

TEST_CASE("layer 2 to 4 headers round trip") {
    CHECK(round_trips<EthHeader>(test::from_hex("e41d2dab2bc2 7cfe90643b32 0800")));
    CHECK(round_trips<Ipv4Header>(test::from_hex("45c2003c718c400040 11 9161 0a0011010a001201")));
    CHECK(Ipv4Header::compute_checksum(test::from_hex("45c2003c718c40004011 9161 0a0011010a001201").data()) == 0);
    CHECK(Ipv4Header::compute_checksum(test::from_hex("45c2003c718c40004011 9162 0a0011010a001201").data()) != 0);
    const auto v6 =
        test::from_hex("6ab12345 0010 11 40 fd000000000000000000000000000001 fd000000000000000000000000000002");
    CHECK(round_trips<Ipv6Header>(v6));
    CHECK(Ipv6Header::parse(v6.data()).traffic_class == 0xab);
    CHECK(Ipv6Header::parse(v6.data()).flow_label == 0x12345);
    CHECK(Grh{}.next_header == 0x1b);
    CHECK(round_trips<UdpHeader>(test::from_hex("c000 12b7 002c 0000")));
}

TEST_CASE("AETH syndromes", "[9.7.5.1.2]") {
    CHECK(Aeth::ack(5).syndrome == 0x1f);
    CHECK(Aeth::ack(5).kind() == AethKind::Ack);
    CHECK(Aeth::rnr_nak(5, 20).syndrome == 0x34);
    CHECK(Aeth::rnr_nak(5, 20).kind() == AethKind::RnrNak);
    CHECK(Aeth::rnr_nak(5, 20).rnr_timer_code() == 20);
    CHECK(Aeth::nak(5, NakCode::PsnSequenceError).syndrome == 0x60);
    CHECK(Aeth::nak(5, NakCode::InvalidRequest).syndrome == 0x61);
    CHECK(Aeth::nak(5, NakCode::RemoteAccessError).syndrome == 0x62);
    CHECK(Aeth::nak(5, NakCode::RemoteOperationalError).syndrome == 0x63);
    CHECK(Aeth::nak(5, NakCode::InvalidRdRequest).syndrome == 0x64);
    CHECK(Aeth::nak(5, NakCode::RemoteAccessError).kind() == AethKind::Nak);
    CHECK(Aeth::nak(5, NakCode::RemoteAccessError).nak_code() == NakCode::RemoteAccessError);
    CHECK(Aeth{0x40, 0}.kind() == AethKind::Reserved);
    CHECK(Aeth{0x9f, 0}.kind() == AethKind::Reserved);
    CHECK(round_trips<Aeth>(test::from_hex("62abcdef")));
}

TEST_CASE("credit codes", "[9.7.7.2]") {
    const uint32_t counts[] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                               48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                               2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
    for (uint8_t code = 0; code <= 30; ++code) {
        CHECK(credits_of_code(code) == counts[code]);
        CHECK(code_of_credits(counts[code]) == code);
    }
    CHECK(code_of_credits(5) == 4);
    CHECK(code_of_credits(1000000) == 30);
}

TEST_CASE("UDP source ports spread by the formula all Linux drivers use", "[A17.3.1.3][case6]") {
    CHECK(udp_source_port(0x3fff, 1, 1) == 65535);
    CHECK(udp_source_port(0x4000, 1, 1) == 49153);
    CHECK(udp_source_port(0x12345, 1, 1) == 58177);
    CHECK(udp_source_port(0xfffff, 1, 1) == 65472);
    CHECK(udp_source_port(0, 0, 0) == 49152);
    CHECK(udp_source_port(0, 0x11, 0x12) == 49458);
    CHECK(udp_source_port(0, 0x12, 0x11) == 49458);
    CHECK(udp_source_port(0, 0x100, 0x100) == 49156);
}

TEST_CASE("text forms of addresses") {
    const MacAddress mac{0x02, 0x77, 0, 0, 0, 0x1f};
    CHECK(to_string(mac) == "02:77:00:00:00:1f");
    CHECK(parse_mac("02:77:0:0:0:1F") == mac);
    CHECK(parse_mac("02-77-00-00-00-1f") == mac);
    for (const char* bad :
         {"", "02:77:00:00:00", "02:77:00:00:00:1f:", "02:77:00:00:00:1g", "02:77:00:00:00:1ff", "0277"})
        CHECK_FALSE(parse_mac(bad));

    const Gid v4 = Gid::from_ipv4(0x0a4d0001);
    CHECK(v4.is_ipv4_mapped());
    CHECK(v4.ipv4() == 0x0a4d0001);
    CHECK(to_string(v4) == "0000:0000:0000:0000:0000:ffff:0a4d:0001");
    CHECK(parse_gid("10.77.0.1") == v4);
    CHECK(parse_gid("::ffff:10.77.0.1") == v4);
    CHECK(parse_gid(to_string(v4)) == v4);
    CHECK_FALSE(parse_gid("10.77.0"));
    CHECK_FALSE(parse_gid("fe80::1::2"));
    CHECK(parse_gid("fe80::1")->is_link_local());
    CHECK_FALSE(parse_gid("fe80::1")->is_ipv4_mapped());
    CHECK(parse_gid("ff0e::1")->is_multicast());
    CHECK(parse_gid("224.1.2.3")->is_multicast());
    CHECK_FALSE(v4.is_multicast());
    CHECK(Gid{}.is_zero());
}
