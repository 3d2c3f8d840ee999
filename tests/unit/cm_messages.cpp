// SPDX-License-Identifier: BSD-3-Clause
// CM message formats: what no recording shows. Positions of the fields of MRA, REJ, LAP, APR against hand-made bytes,
// and for every message: any bytes parse, what is written carries the same fields, reserved bits are zero.
// Read IBTA volume 1, 12.6, 12.8, 12.11 and annex A11.3.
#include <catch2/catch.hpp>
#include <random>

#include "cm/apr.h"
#include "cm/drep.h"
#include "cm/dreq.h"
#include "cm/ip_header.h"
#include "cm/lap.h"
#include "cm/mra.h"
#include "cm/rej.h"
#include "cm/rep.h"
#include "cm/req.h"
#include "cm/rtu.h"
#include "cm/service_id.h"
#include "cm/sidr_rep.h"
#include "cm/sidr_req.h"
#include "cm/timing.h"

using namespace rocemu;
using namespace rocemu::cm;

namespace {

// The message alone with every byte behind the header written.
template <typename Message>
Mad write_over(const Message& message) {
    Mad mad;
    mad.fill(std::byte{0xee});
    message.write(mad);
    return mad;
}

// Bits of the body that the message gives a meaning.
template <typename Message>
size_t meaningful_bits(const Mad& ones) {
    const Mad out = write_over(Message::parse(ones));
    size_t count = 0;
    for (size_t i = MadHeader::kSize; i < out.size(); ++i)
        count += static_cast<size_t>(std::popcount(static_cast<uint8_t>(out[i])));
    return count;
}

uint8_t at(const Mad& mad, size_t offset) {
    return static_cast<uint8_t>(body_of(mad)[offset]);
}

}  // namespace

TEMPLATE_TEST_CASE("any bytes are a message; fields survive being written", "", Req, Rep, Rtu, Rej, Mra, Dreq, Drep,
                   SidrReq, SidrRep, Lap, Apr) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        Mad mad;
        for (auto& b : mad) b = static_cast<std::byte>(random());
        const auto message = TestType::parse(mad);
        const Mad written = write_over(message);
        CHECK(TestType::parse(written) == message);
        CHECK(write_over(TestType::parse(written)) == written);
        // Only reserved bits were lost, none was invented.
        for (size_t i = MadHeader::kSize; i < mad.size(); ++i) REQUIRE((written[i] & ~mad[i]) == std::byte{0});
    }
}

TEST_CASE("the number of bits that mean something") {
    Mad ones;
    ones.fill(std::byte{0xff});
    constexpr size_t kAll = (256 - 24) * 8;
    // Reserved: byte 4, bytes 24-27; per path 6 bits of the flow label word, 3 of SL, 3 of the ACK timeout byte (one
    // of the alternate path's is SAP).
    CHECK(meaningful_bits<Req>(ones) == kAll - 8 - 32 - 2 * 12 + 1);
    CHECK(meaningful_bits<Rep>(ones) == kAll - 4);
    CHECK(meaningful_bits<Rtu>(ones) == kAll);
    CHECK(meaningful_bits<Drep>(ones) == kAll);
    CHECK(meaningful_bits<Dreq>(ones) == kAll - 8);
    CHECK(meaningful_bits<Mra>(ones) == kAll - 6 - 3);
    CHECK(meaningful_bits<Rej>(ones) == kAll - 6 - 1);
    CHECK(meaningful_bits<SidrReq>(ones) == kAll - 16);
    CHECK(meaningful_bits<SidrRep>(ones) == kAll - 16 - 8);
    CHECK(meaningful_bits<Lap>(ones) == kAll - 32 - 3 - 32 - 4 - 2 - 3 - 3);
    CHECK(meaningful_bits<Apr>(ones) == kAll - 16);
}

TEST_CASE("where the fields of MRA, REJ, LAP and APR are") {
    const Mad mra = write_over(Mra{.local_comm_id = 0x01020304, .message = MessageKind::Rep, .service_timeout = 24});
    CHECK(at(mra, 0) == 0x01);
    CHECK(at(mra, 8) == 0x40);
    CHECK(at(mra, 9) == 0xc0);

    Rej rej{.remote_comm_id = 0x0a0b0c0d,
            .message = MessageKind::Other,
            .info_length = 8,
            .reason = RejectReason::ConsumerDefined};
    rej.info[0] = std::byte{0x11};
    rej.private_data[0] = std::byte{0x22};
    const Mad rej_mad = write_over(rej);
    CHECK(at(rej_mad, 4) == 0x0a);
    CHECK(at(rej_mad, 8) == 0x80);
    CHECK(at(rej_mad, 9) == 0x10);
    CHECK(at(rej_mad, 11) == 28);
    CHECK(at(rej_mad, 12) == 0x11);
    CHECK(at(rej_mad, 84) == 0x22);

    Lap lap{.remote_qpn = 0xabcdef,
            .remote_cm_response_timeout = 20,
            .alternate_local_lid = 0x1234,
            .alternate_flow_label = 0x12345,
            .alternate_traffic_class = 0x77,
            .alternate_hop_limit = 9,
            .alternate_packet_rate = 3,
            .alternate_sl = 5,
            .alternate_subnet_local = true,
            .alternate_local_ack_timeout = 17};
    const Mad lap_mad = write_over(lap);
    CHECK(load_be24(body_of(lap_mad) + 12) == 0xabcdef);
    CHECK(at(lap_mad, 15) == 0xa0);
    CHECK(at(lap_mad, 20) == 0x12);
    CHECK(load_be<uint32_t>(body_of(lap_mad) + 56) == 0x12345077);
    CHECK(at(lap_mad, 60) == 9);
    CHECK(at(lap_mad, 61) == 3);
    CHECK(at(lap_mad, 62) == 0x58);
    CHECK(at(lap_mad, 63) == 0x88);

    const Mad apr = write_over(Apr{.info_length = 4, .status = AprStatus::Unsupported});
    CHECK(at(apr, 8) == 4);
    CHECK(at(apr, 9) == 2);
}

TEST_CASE("the IP header: versions") {
    std::array<std::byte, 92> data{};
    CHECK_FALSE(IpHeader::parse(data));  // IP version 0
    IpHeader{.ip_version = IpVersion::V6, .source = *wire::parse_gid("fe80::1")}.write(data);
    REQUIRE(IpHeader::parse(data));
    CHECK(IpHeader::parse(data)->source == *wire::parse_gid("fe80::1"));
    data[0] = std::byte{0x10};  // major version 1
    CHECK_FALSE(IpHeader::parse(data));
    data[0] = std::byte{0};
    CHECK_FALSE(IpHeader::parse(std::span(data).first(35)));
    data[1] = std::byte{0x50};
    CHECK_FALSE(IpHeader::parse(data));
}

TEST_CASE("service ids") {
    CHECK(service_id_of({PortSpace::Tcp, 7174}) == 0x0000000001061c06);
    CHECK(service_id_of({PortSpace::Udp, 7174}) == 0x0000000001111c06);
    CHECK(ip_service_of(0x00000000013f0001) == IpService{PortSpace::Ib, 1});
    CHECK_FALSE(ip_service_of(0x0000000001071c06));
    CHECK_FALSE(ip_service_of(0x1000000001061c06));
    CHECK_FALSE(ip_service_of(0));
}

TEST_CASE("durations") {
    CHECK(time_of(0) == 4096);
    CHECK(time_of(20) == 4'294'967'296);
    CHECK(time_of(31) == time_of(25));
    CHECK(response_time(0, 0) == 10 * kMillisecond);
    CHECK(ack_timeout_of(15, 16) == 17);
    CHECK(ack_timeout_of(16, 16) == 18);
    CHECK(ack_timeout_of(20, 16) == 20);
    CHECK(ack_timeout_of(31, 31) == 31);
}
