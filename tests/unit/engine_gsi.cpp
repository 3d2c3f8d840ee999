// SPDX-License-Identifier: BSD-3-Clause
// QP 1 of a device: which datagrams reach the connection manager, which do not and are counted where, and that a flood
// is bounded.
#include <array>
#include <catch2/catch.hpp>

#include "support/engine_world.h"
#include "support/wire_frames.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

struct Mad {
    wire::AddressVector address;
    wire::Bth bth;
    wire::ExtHeaders ext;
    std::vector<std::byte> payload = std::vector<std::byte>(engine::kMadSize, std::byte{0x5a});

    Mad() {
        address.src_mac = {2, 0, 0, 0, 0, 1};
        address.dst_mac = {2, 0, 0, 0, 0, 2};
        address.src_gid = EngineWorld::gid_of(0);
        address.dst_gid = EngineWorld::gid_of(1);
        address.udp_source_port = 0xc000;
        bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
        bth.dest_qp = engine::kGsiQpn;
        ext.deth = {.qkey = engine::kGsiQkey, .src_qp = 1};
    }
    [[nodiscard]] Frame frame() const { return make_frame(address, bth, ext, payload); }
};

// What NIC 1 hands on of a frame that NIC 0 sends.
size_t arrives(EngineWorld& w, const Frame& frame, engine::ReceivedMad* out = nullptr) {
    w.shard.send_mad(0, frame);
    w.turns(10);
    std::array<engine::ShardEvent, 8> events;
    (void)w.shard.poll_events(events);
    std::array<engine::ReceivedMad, 8> mads;
    const size_t n = w.shard.poll_mads(mads);
    if (out != nullptr && n > 0) *out = mads[0];
    return n;
}

}  // namespace

TEST_CASE("a MAD to QP 1 reaches control with its addresses", "[engine][13.5.3][13.4.2]") {
    EngineWorld w;
    engine::ReceivedMad mad;
    REQUIRE(arrives(w, Mad().frame(), &mad) == 1);
    CHECK(mad.device == 1);
    CHECK(mad.source_qpn == 1);
    CHECK(mad.local == EngineWorld::gid_of(1));
    CHECK(mad.remote == EngineWorld::gid_of(0));
    CHECK(mad.pkey == 0xffff);
    CHECK(mad.mad[255] == std::byte{0x5a});
    CHECK(w.counter(0, Counter::tx_mads) == 1);
    CHECK(w.counter(1, Counter::rx_mads) == 1);
}

TEST_CASE("what is no MAD for us is dropped at QP 1", "[engine][13.5.3][9.6.1.1]") {
    EngineWorld w;
    Mad qkey, length, empty, opcode, address;
    qkey.ext.deth.qkey = 0x80010001;
    length.payload.resize(252);
    empty.payload.clear();
    opcode.bth.opcode = static_cast<uint8_t>(wire::Opcode::RcSendOnly);
    address.address.dst_gid = wire::Gid::from_ipv4(0x0a0000fe);
    for (const Mad* bad : {&qkey, &length, &empty, &opcode, &address}) CHECK(arrives(w, bad->frame()) == 0);
    Frame icrc = Mad().frame();
    icrc.back() ^= std::byte{1};
    CHECK(arrives(w, icrc) == 0);
    CHECK(w.counter(1, Counter::rx_mads) == 0);
    CHECK(w.counter(1, Counter::rx_icrc_encapsulated) == 1);
    CHECK(arrives(w, Mad().frame()) == 1);
}

TEST_CASE("a wrong ICRC: dropped when it is strict, only counted when it is ignored", "[engine][case40]") {
    for (const bool strict : {true, false}) {
        engine::ShardConfig config;
        config.icrc_check = strict;
        EngineWorld w(2, config);
        Frame wrong = Mad().frame();
        wrong.back() ^= std::byte{1};
        CHECK(arrives(w, wrong) == (strict ? 0 : 1));
        CHECK(w.counter(1, Counter::rx_icrc_encapsulated) == 1);
        CHECK(arrives(w, Mad().frame()) == 1);
        CHECK(w.counter(1, Counter::rx_icrc_encapsulated) == 1);
    }
}

TEST_CASE("a flood of MADs is bounded and counted", "[engine]") {
    EngineWorld w;
    const Frame frame = Mad().frame();
    for (size_t i = 0; i < engine::kMaxWaitingMads + 44; ++i) {
        w.shard.send_mad(0, frame);
        if (i % 50 == 49) w.turns(20);
    }
    w.turns(20);
    CHECK(w.counter(1, Counter::rx_mads) == engine::kMaxWaitingMads);
    CHECK(w.counter(1, Counter::mad_overflow_drops) == 44);
    std::vector<engine::ReceivedMad> mads(engine::kMaxWaitingMads + 1);
    CHECK(w.shard.poll_mads(mads) == engine::kMaxWaitingMads);
    CHECK(arrives(w, frame) == 1);
}
