// SPDX-License-Identifier: BSD-3-Clause
// What a Device sends to itself: each frame takes one place in its loop, whatever it is for, so that what tx_room() promised
// holds.
#include <catch2/catch.hpp>

#include "engine/device.h"
#include "support/heap_pool.h"
#include "wire/build.h"

using namespace rocemu;
using namespace rocemu::engine;

namespace {

constexpr std::array<uint8_t, 6> kMac{2, 0, 0, 0, 0, 1};

// Takes nothing and has nothing; does not return what is sent to its own address.
struct IdlePort final : Port {
    size_t rx_burst(Instant, std::span<Frame>) override { return 0; }
    size_t tx_burst(Instant, std::span<Frame>) override { return 0; }
    [[nodiscard]] PortInfo info() const override {
        PortInfo info;
        std::copy(kMac.begin(), kMac.end(), info.mac);
        info.mtu = 4200;
        return info;
    }
};

struct World {
    World() {
        // Only its address is of interest: somebody is in the group.
        static std::byte nobody[1];
        device.groups.join(wire::Gid::from_ipv4(0xe0000101), *reinterpret_cast<QpRecord*>(nobody));
    }
    static DeviceSetup setup_of(Port& port, FramePool& pool) {
        DeviceSetup s;
        s.name = "nic";
        s.port = &port;
        s.pool = &pool;
        return s;
    }
    // A datagram to everybody's QP number.
    Frame frame(const std::array<uint8_t, 6>& to) {
        wire::AddressVector av;
        av.network = wire::NetworkType::V2Ipv4;
        av.src_mac = kMac;
        av.dst_mac = to;
        av.src_gid = wire::Gid::from_ipv4(0x0a000001);
        av.dst_gid = wire::Gid::from_ipv4(0x0a000002);
        wire::Bth bth;
        bth.opcode = static_cast<uint8_t>(wire::Opcode::UdSendOnly);
        bth.dest_qp = kMulticastQpn;
        REQUIRE(device.cache.reserve(1));
        Frame f = device.cache.take();
        f.length = static_cast<uint32_t>(wire::HeaderTemplate(av).build(f.data, bth, {}, 0, 0));
        return f;
    }
    IdlePort port;
    test::HeapPool pool{4096};
    Device device{setup_of(port, pool)};
};

}  // namespace

TEST_CASE("a frame to our own address has one place in the loop, also if it names the multicast QP number", "[engine][10.5.2]") {
    World w;
    while (w.device.loop.room() > 64) w.device.loop.push(w.frame(kMac));
    REQUIRE(w.device.tx_room(64));
    SECTION("of a datagram QP") {
        for (int i = 0; i < 64; ++i) w.device.send(w.frame(kMac));
    }
    SECTION("a raw packet") {
        for (int i = 0; i < 64; ++i) w.device.send_raw(w.frame(kMac));
    }
    CHECK(w.device.loop.full());
    CHECK(w.device.loop.size() == Device::kLoopFrames);
    CHECK(w.device.tx.empty());
}

TEST_CASE("members at our own port get one copy of what goes out", "[engine][10.5.2.2]") {
    World w;
    w.device.send(w.frame({1, 0, 0x5e, 0, 1, 1}));
    CHECK(w.device.loop.size() == 1);
    w.device.send_raw(w.frame({1, 0, 0x5e, 0, 1, 1}));
    CHECK(w.device.loop.size() == 2);
    CHECK(w.device.tx.size() == 2);
}
