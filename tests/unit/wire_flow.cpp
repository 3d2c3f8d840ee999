// SPDX-License-Identifier: BSD-3-Clause
// FlowParser against parse_frame: what it accepts it has parsed as parse_frame would have, whatever bytes of the frame are
// changed; what is not of the flow, or not in order, it leaves alone. HeaderSeries against HeaderTemplate::build.
#include <catch2/catch.hpp>
#include <random>

#include "support/wire_frames.h"
#include "wire/flow_parser.h"
#include "wire/header_series.h"
#include "wire/icrc.h"
#include "wire/ipv4.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::wire;

namespace {

constexpr size_t kIp = 14, kUdp = kIp + 20, kBth = kUdp + 8;

AddressVector address(NetworkType network = NetworkType::V2Ipv4, bool vlan = false) {
    AddressVector a{.src_mac = {2, 0, 0, 0, 0, 1}, .dst_mac = {2, 0, 0, 0, 0, 2}, .has_vlan = vlan, .network = network};
    a.vlan_tci = vlan ? 5 : 0;
    const bool v4 = network == NetworkType::V2Ipv4;
    a.src_gid = v4 ? Gid::from_ipv4(0x0a000001) : *parse_gid("fe80::1");
    a.dst_gid = v4 ? Gid::from_ipv4(0x0a000002) : *parse_gid("fe80::2");
    a.traffic_class = 0x68;
    a.udp_source_port = 50000;
    return a;
}

test::Frame frame_of(const AddressVector& a, Opcode opcode, size_t payload, uint32_t psn = 7, uint16_t id = 1,
                     uint32_t qpn = 0x11) {
    const test::Frame data(payload, std::byte{0x5a});
    const Bth bth{.opcode = static_cast<uint8_t>(opcode), .dest_qp = qpn, .ack_req = psn % 3 == 0, .psn = psn};
    return test::make_frame(a, bth, {}, data, id);
}

void fix_ip_checksum(test::Frame& f) {
    store_be<uint16_t>(f.data() + kIp + 10, 0);
    store_be<uint16_t>(f.data() + kIp + 10, Ipv4Header::compute_checksum(f.data() + kIp));
}

bool same(const PacketView& a, const PacketView& b) {
    const auto at = [](const PacketView& v) {
        return std::tuple(v.ext, v.payload.data(), v.payload.size(), v.l3.data(), v.l3.size(), v.icrc, v.op);
    };
    const auto envelope = [](const PacketView& v) {
        return std::tuple(v.network, v.dst_mac, v.src_mac, v.has_vlan, v.vlan_tci, v.src_gid.raw, v.dst_gid.raw, v.traffic_class,
                          v.hop_limit, v.flow_label, v.ip_id, v.udp_source_port);
    };
    const auto bth = [](const PacketView& v) {
        const Bth& h = v.bth;
        return std::tuple(h.opcode, h.solicited, h.mig_req, h.pad_count, h.tver, h.pkey, h.fecn, h.becn, h.dest_qp, h.ack_req,
                          h.psn);
    };
    return at(a) == at(b) && envelope(a) == envelope(b) && bth(a) == bth(b);
}

// A flow that has begun with a WRITE.
struct Flow {
    explicit Flow(const test::Frame& first) : frame(first) {
        REQUIRE(parse_frame(frame, view).ok());
        parser.remember(frame, view);
    }
    // Does it take the frame? Then as parse_frame does.
    bool takes(const test::Frame& next) {
        PacketView mine = view, other;
        const bool taken = parser.parse(next, mine);
        if (!taken) return false;
        CHECK(parse_frame(next, other).ok());
        CHECK(same(mine, other));
        return true;
    }
    test::Frame frame;
    PacketView view;
    FlowParser parser;
};

}  // namespace

TEST_CASE("packets of a flow are taken, whatever they are") {
    Flow flow(frame_of(address(), Opcode::RcWriteFirst, 1024));
    for (const Opcode op : {Opcode::RcWriteMiddle, Opcode::RcWriteLastImm, Opcode::RcSendOnly, Opcode::RcAcknowledge,
                            Opcode::RcAtomicAcknowledge, Opcode::UcSendMiddle, Opcode::RcReadRequest, Opcode::Cnp})
        for (const size_t payload : {0, 1, 64, 1024, 4096})
            if (opcode_info(op).has_payload || payload == 0)
                CHECK(flow.takes(frame_of(address(), op, payload, static_cast<uint32_t>(payload) + 9, 0xfff0)));
    // Filled up by Ethernet; FECN; another UDP checksum, which nobody looks at.
    auto frame = frame_of(address(), Opcode::RcSendMiddle, 256);
    frame[kBth + 4] = std::byte{0x80};
    frame[kUdp + 6] = std::byte{0x12};
    frame.resize(frame.size() + 10);
    CHECK(flow.takes(frame));
    // All identifications: the checksum comes out right for each.
    size_t refused = 0;
    for (uint32_t id = 0; id < 0x10000; id += 7)
        refused += !flow.takes(frame_of(address(), Opcode::RcWriteMiddle, 256, 8, static_cast<uint16_t>(id)));
    CHECK(refused == 0);
}

TEST_CASE("what is not of the flow is left alone") {
    Flow flow(frame_of(address(), Opcode::RcWriteFirst, 256));
    const auto middle = [](const AddressVector& a, uint32_t qpn = 0x11) {
        return frame_of(a, Opcode::RcWriteMiddle, 256, 8, 1, qpn);
    };
    CHECK(flow.takes(middle(address())));
    CHECK_FALSE(flow.takes(middle(address(NetworkType::V2Ipv6))));
    CHECK_FALSE(flow.takes(middle(address(NetworkType::RoceV1))));
    CHECK_FALSE(flow.takes(middle(address(NetworkType::V2Ipv4, true))));
    CHECK_FALSE(flow.takes(middle(address(), 0x12)));
    for (const auto& change : std::initializer_list<void (*)(AddressVector&)>{
             [](AddressVector& a) { a.src_mac[5] = 9; }, [](AddressVector& a) { a.dst_mac[5] = 9; },
             [](AddressVector& a) { a.src_gid = Gid::from_ipv4(0x0a000009); },
             [](AddressVector& a) { a.dst_gid = Gid::from_ipv4(0x0a000009); }, [](AddressVector& a) { a.traffic_class = 0; },
             [](AddressVector& a) { a.hop_limit = 9; }, [](AddressVector& a) { a.udp_source_port = 50001; },
             [](AddressVector& a) { a.ecn = 3; }}) {
        AddressVector other = address();
        change(other);
        CHECK_FALSE(flow.takes(middle(other)));
    }
    flow.parser.forget();
    CHECK_FALSE(flow.takes(middle(address())));
    // Nor does one begin with any but plain frames.
    for (const auto& a : {address(NetworkType::V2Ipv6), address(NetworkType::RoceV1), address(NetworkType::V2Ipv4, true)}) {
        Flow none(middle(a));
        CHECK_FALSE(none.takes(middle(a)));
    }
}

TEST_CASE("what is not in order is left alone") {
    Flow flow(frame_of(address(), Opcode::RcWriteFirst, 256));
    const auto takes = [&](size_t at, uint16_t value, bool fix = true) {
        auto frame = frame_of(address(), Opcode::RcWriteMiddle, 256);
        store_be<uint16_t>(frame.data() + at, value);
        if (fix) fix_ip_checksum(frame);
        return flow.takes(frame);
    };
    CHECK(takes(kIp + 4, 77));
    CHECK_FALSE(takes(kIp + 4, 77, false));    // checksum
    CHECK_FALSE(takes(kIp, 0x4668));           // options
    CHECK_FALSE(takes(kIp, 0x6568));           // version
    CHECK_FALSE(takes(kIp + 6, 0x2000));       // more fragments
    CHECK_FALSE(takes(kIp + 6, 0x0001));       // a later fragment
    CHECK_FALSE(takes(kIp + 2, 296));          // shorter than UDP says
    CHECK_FALSE(takes(kIp + 2, 5000));         // longer than the frame
    CHECK_FALSE(takes(kIp + 2, 20));           // no room for UDP
    CHECK_FALSE(takes(kUdp + 2, 4790));        // port
    CHECK_FALSE(takes(kUdp + 4, 299));         // UDP length
    CHECK_FALSE(takes(kBth, 0x0701));          // TVer
    CHECK_FALSE(takes(kBth, 0x1800));          // reserved opcode
    CHECK_FALSE(takes(kBth, 0x1100));          // an ACK has no payload
    CHECK_FALSE(takes(kBth + 2, 0x1234));      // P_Key
    for (size_t size = 0; size < flow.frame.size(); ++size) {
        auto frame = frame_of(address(), Opcode::RcWriteMiddle, 256);
        frame.resize(std::min(size, frame.size() - 1));
        CHECK_FALSE(flow.takes(frame));
    }
}

TEST_CASE("whatever is changed, what is taken is what parse_frame finds") {
    std::mt19937 random(5);
    Flow flow(frame_of(address(), Opcode::RcWriteFirst, 64));
    size_t taken = 0;
    for (int i = 0; i < 40000; ++i) {
        const auto opcode = static_cast<Opcode>(random() % 0x20);
        if (!opcode_info(opcode).valid()) continue;
        auto frame = frame_of(address(), opcode, 64, random() & 0xffffff,
                              static_cast<uint16_t>(random()));
        for (uint32_t n = random() % 3; n > 0; --n) frame[random() % 58] = static_cast<std::byte>(random());
        if (random() % 2) fix_ip_checksum(frame);
        frame.resize(frame.size() - random() % 2 * (random() % 70));
        taken += flow.takes(frame);
    }
    CHECK(taken > 1000);
}

TEST_CASE("headers of a series are those of each packet") {
    std::mt19937 random(6);
    for (const bool vlan : {false, true})
        for (const auto network : {NetworkType::RoceV1, NetworkType::V2Ipv4, NetworkType::V2Ipv6}) {
            const HeaderTemplate headers(address(network, vlan));
            for (const size_t payload : {0, 3, 256, 4096}) {
                Bth bth{.opcode = static_cast<uint8_t>(Opcode::RcSendMiddle), .solicited = payload == 3, .dest_qp = 0xabcdef};
                const HeaderSeries series(headers, bth, payload);
                for (int i = 0; i < 100; ++i) {
                    bth.psn = random() & 0xffffff;
                    bth.ack_req = random() & 1;
                    const auto id = static_cast<uint16_t>(i < 3 ? 0xffff - i : random());
                    std::array<std::byte, kMaxHeaders> one{}, other{};
                    REQUIRE(headers.build(one.data(), bth, {}, payload, id) == series.size());
                    series.write(other.data(), bth.psn, bth.ack_req, id);
                    CHECK(std::equal(one.begin(), one.begin() + static_cast<ptrdiff_t>(series.size()), other.begin()));
                }
            }
        }
}
