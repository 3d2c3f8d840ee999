// SPDX-License-Identifier: BSD-3-Clause
// Recorded CM messages of a Linux peer (tests/vectors/data): each parses and is written again byte for byte, and known
// fields have the values that an independent dissector shows. Read IBTA volume 1, 12.6 and annex A11.3.
#include <catch2/catch.hpp>
#include <map>

#include "cm/drep.h"
#include "cm/dreq.h"
#include "cm/ip_header.h"
#include "cm/rej.h"
#include "cm/rep.h"
#include "cm/req.h"
#include "cm/rtu.h"
#include "cm/service_id.h"
#include "cm/sidr_rep.h"
#include "cm/sidr_req.h"
#include "vectors/cm_recorded.h"

using namespace rocemu;
using namespace rocemu::cm;

namespace {

template <typename Message>
Mad written_again(const Mad& mad) {
    Mad out;
    out.fill(std::byte{0xee});  // a byte that is not written stands out
    MadHeader::parse(mad).write(out);
    Message::parse(mad).write(out);
    return out;
}

Mad written_again(const Mad& mad) {
    switch (attribute_of(mad)) {
        case Attribute::Req:
            return written_again<Req>(mad);
        case Attribute::Rep:
            return written_again<Rep>(mad);
        case Attribute::Rtu:
            return written_again<Rtu>(mad);
        case Attribute::Rej:
            return written_again<Rej>(mad);
        case Attribute::Dreq:
            return written_again<Dreq>(mad);
        case Attribute::Drep:
            return written_again<Drep>(mad);
        case Attribute::SidrReq:
            return written_again<SidrReq>(mad);
        case Attribute::SidrRep:
            return written_again<SidrRep>(mad);
        default:
            throw std::runtime_error("no such message was recorded");
    }
}

const std::filesystem::path kData = VECTORS_DIR;

}  // namespace

TEST_CASE("every recorded CM message is written again byte for byte") {
    std::map<Attribute, int> seen;
    for (const auto& file : test::pcap_files(kData)) {
        for (const auto& recorded : test::recorded_mads(file)) {
            INFO(file << " attribute " << static_cast<int>(recorded.attribute()));
            CHECK(written_again(recorded.rx.mad) == recorded.rx.mad);
            ++seen[recorded.attribute()];
        }
    }
    CHECK(seen.size() == 8);
    CHECK(seen[Attribute::Req] >= 10);
    CHECK(seen[Attribute::Rej] >= 1);
    CHECK(seen[Attribute::SidrRep] >= 2);
}

TEST_CASE("fields of rping's REQ and REP") {
    const auto mads = test::recorded_mads(kData / "uml/rdmacm-rping.pcap");
    REQUIRE(mads.size() == 5);
    const MadHeader header = MadHeader::parse(mads[0].rx.mad);
    CHECK(header.transaction_id == 0x000000023de54ad4);
    CHECK(header.status == 0);
    const Req req = Req::parse(mads[0].rx.mad);
    CHECK(req.local_comm_id == 0xd44ae53d);
    CHECK(ip_service_of(req.service_id) == IpService{PortSpace::Tcp, 7174});
    CHECK(req.local_ca_guid == 0x007700fffe000001);
    CHECK(req.local_qpn == 0xa6);
    CHECK(req.responder_resources == 1);
    CHECK(req.initiator_depth == 1);
    CHECK(req.remote_cm_response_timeout == 20);
    CHECK(req.transport_service == 0);
    CHECK_FALSE(req.end_to_end_flow_control);
    CHECK(req.starting_psn == 0x1c9f47);
    CHECK(req.local_cm_response_timeout == 20);
    CHECK(req.retry_count == 7);
    CHECK(req.partition_key == 0xffff);
    CHECK(req.path_mtu == 3);
    CHECK(req.rnr_retry_count == 7);
    CHECK(req.max_cm_retries == 15);
    CHECK_FALSE(req.srq);
    CHECK(req.primary.local_lid == 0xffff);
    CHECK(req.primary.local_gid == wire::Gid::from_ipv4(0x0a4d0001));
    CHECK(req.primary.remote_gid == wire::Gid::from_ipv4(0x0a4d0002));
    CHECK(req.primary.flow_label == 0xced6b);
    CHECK(req.primary.hop_limit == 64);
    CHECK(req.primary.local_ack_timeout == 17);
    CHECK(req.alternate == ReqPath{});
    const auto ip = IpHeader::parse(req.private_data);
    REQUIRE(ip);
    CHECK(ip->ip_version == IpVersion::V4);
    CHECK(ip->source_port == 0xedfb);
    CHECK(ip->source == wire::Gid::from_ipv4(0x0a4d0001));
    CHECK(ip->destination == wire::Gid::from_ipv4(0x0a4d0002));

    const Rep rep = Rep::parse(mads[1].rx.mad);
    CHECK(rep.local_comm_id == 0x0e360b9b);
    CHECK(rep.remote_comm_id == 0xd44ae53d);
    CHECK(rep.local_qpn == 0x3c);
    CHECK(rep.starting_psn == 0x176819);
    CHECK(rep.target_ack_delay == 15);
    CHECK(rep.rnr_retry_count == 7);
    CHECK(rep.local_ca_guid == 0x007700fffe000002);
    CHECK(Dreq::parse(mads[3].rx.mad).remote_qpn == 0x3c);
}

TEST_CASE("the IP header is written as it was recorded") {
    for (const char* name : {"uml/rdmacm-rping.pcap", "uml/rdmacm-rping.ipv6-ula.pcap"}) {
        const Req req = Req::parse(test::recorded_mads(kData / name).at(0).rx.mad);
        const auto ip = IpHeader::parse(req.private_data);
        REQUIRE(ip);
        std::array<std::byte, IpHeader::kSize> again;
        again.fill(std::byte{0xee});
        ip->write(again);
        CHECK(std::equal(again.begin(), again.end(), req.private_data.begin()));
    }
    const Req v6 = Req::parse(test::recorded_mads(kData / "uml/rdmacm-rping.ipv6-ula.pcap").at(0).rx.mad);
    CHECK(IpHeader::parse(v6.private_data)->ip_version == IpVersion::V6);
    CHECK(IpHeader::parse(v6.private_data)->destination == *wire::parse_gid("fd00:e::2"));
}

TEST_CASE("fields of a REJ without listener, and of udaddy's SIDR exchange") {
    const auto refused = test::recorded_mads(kData / "uml/rdmacm-reject-no-listener.pcap");
    REQUIRE(refused.size() == 2);
    const Rej rej = Rej::parse(refused[1].rx.mad);
    CHECK(rej.local_comm_id == 0);
    CHECK(rej.message == MessageKind::Req);
    CHECK(rej.reason == RejectReason::InvalidServiceId);
    CHECK(rej.info_length == 0);

    const auto sidr = test::recorded_mads(kData / "uml/rdmacm-udaddy-sidr.pcap");
    REQUIRE(sidr.size() == 2);
    CHECK(ip_service_of(SidrReq::parse(sidr[0].rx.mad).service_id) == IpService{PortSpace::Udp, 7174});
    const SidrRep rep = SidrRep::parse(sidr[1].rx.mad);
    CHECK(rep.status == SidrStatus::Valid);
    CHECK(rep.qpn == 0x3f);
    CHECK(rep.qkey == 0x01234567);
}
