// SPDX-License-Identifier: BSD-3-Clause
// What owners and the manager have room for: backlog, quotas, capacities, rings, ids; and that owners cannot see or
// touch each other. Read IBTA volume 1, 12.9.4.
#include <catch2/catch.hpp>
#include <optional>
#include <set>

#include "cm/drep.h"
#include "sim/cm_pair.h"

using namespace rocemu;
using namespace rocemu::cm;
using test::CmPair;

namespace {

constexpr auto kA = CmPair::A;
constexpr auto kB = CmPair::B;
constexpr auto kOwner = CmPair::kOwner;

struct Established {
    CmId a = 0, b = 0;
};

Established establish(CmPair& p, uint32_t qpn, uint16_t port = 7000) {
    Established e;
    e.a = p.a().connect(p.now, kOwner, p.connect_params(kA, port, qpn)).value;
    p.run(kMillisecond);
    REQUIRE(p.last(kB).kind == EventKind::ConnectRequest);
    e.b = p.last(kB).id;
    REQUIRE(p.b().accept(p.now, kOwner, e.b, {.local_qpn = qpn + 0x1000}) == Status::Ok);
    p.run(kMillisecond);
    REQUIRE(p.a().confirm(kOwner, e.a) == Status::Ok);
    p.run(kMillisecond);
    REQUIRE(p.last(kB).kind == EventKind::Established);
    return e;
}

Req some_req() {
    Req req;
    req.local_comm_id = 0x1234;
    req.service_id = service_id_of({PortSpace::Tcp, 7000});
    req.local_ca_guid = CmPair::guid(kA);
    req.local_qpn = 9;
    req.path_mtu = 3;
    req.primary.local_gid = CmPair::gid(kA);
    req.primary.remote_gid = CmPair::gid(kB);
    IpHeader{.source = CmPair::gid(kA), .destination = CmPair::gid(kB)}.write(req.private_data);
    return req;
}

}  // namespace

TEST_CASE("backlog: no more unfetched requests than the listener wants, the others come again") {
    CmPair p;
    p.listen(kB, 7000, 2);
    for (uint32_t i = 0; i < 5; ++i) REQUIRE(p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, i)).ok());
    p.run(kSecond);
    CHECK(p.count(kB, EventKind::ConnectRequest) == 2);
    CHECK(p.count(kA, EventKind::Rejected) == 0);
    CHECK(p.b().counters().drop_backlog == 3);
    CHECK(p.b().request_fetched(kOwner, p.events[kB][0].id) == Status::Ok);
    CHECK(p.b().request_fetched(kOwner, p.events[kB][0].id) == Status::Ok);  // counts once
    p.run(5 * kSecond);
    CHECK(p.count(kB, EventKind::ConnectRequest) == 3);
    CHECK(p.b().destroy(p.now, kOwner, p.events[kB][1].id) == Status::Ok);
    CHECK(p.b().accept(p.now, kOwner, p.events[kB][2].id, {.local_qpn = 4}) == Status::Ok);
    p.run(6 * kSecond);
    CHECK(p.count(kB, EventKind::ConnectRequest) == 5);
}

TEST_CASE("a listener that ends refuses the requests nobody fetched") {
    CmPair p;
    const auto listener = p.listen(kB, 7000);
    REQUIRE(p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 1)).ok());
    REQUIRE(p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 2)).ok());
    p.run(kMillisecond);
    CHECK(p.b().request_fetched(kOwner, p.events[kB][0].id) == Status::Ok);
    REQUIRE(p.b().unbind(p.now, kOwner, listener) == Status::Ok);
    p.run(kMillisecond);
    CHECK(p.count(kA, EventKind::Rejected) == 1);
    CHECK(p.b().info(kOwner, p.events[kB][0].id).ok());
    CHECK(p.b().info(kOwner, p.events[kB][1].id).status == Status::NotFound);
}

TEST_CASE("owners cannot see or touch each other") {
    CmPair p;
    p.listen(kB, 7000);
    const auto e = establish(p, 0x10);
    constexpr OwnerId kOther = 2;
    REQUIRE(p.b().add_owner(kOther, {}) == Status::Ok);
    CHECK(p.b().info(kOther, e.b).status == Status::NotFound);
    CHECK(p.b().disconnect(p.now, kOther, e.b) == Status::NotFound);
    CHECK(p.b().destroy(p.now, kOther, e.b) == Status::NotFound);
    CHECK(p.b().reject(p.now, kOther, e.b, {}) == Status::NotFound);
    CHECK(p.b().accept(p.now, kOther, e.b, {}) == Status::NotFound);
    CHECK(p.b().notify_established(kOther, e.b) == Status::NotFound);
    CHECK(p.b().request_fetched(kOther, e.b) == Status::NotFound);
    CHECK(p.b().info(kOther, 0).status == Status::NotFound);
    CHECK(p.b().connect(p.now, 3, p.connect_params(kB, 1, 1)).status == Status::NotFound);
    p.b().remove_owner(p.now, kOther);
    CHECK(p.b().info(kOwner, e.b).value.state == State::Established);
    // Events of an owner that has gone are nobody's.
    REQUIRE(p.a().disconnect(p.now, kOwner, e.a) == Status::Ok);
    TxMad dreq;
    REQUIRE(p.a().poll_transmit(dreq));
    p.b().handle_mad(p.now, p.forge(kB, dreq.mad));
    p.b().remove_owner(p.now, kOwner);
    Event event;
    CHECK_FALSE(p.b().poll_event(event));
    p.run(100 * kSecond);
    CHECK(p.b().connections() == 0);
}

TEST_CASE("an owner's quota, and requests beyond it") {
    CmPair p;
    constexpr OwnerId kSmall = 2;
    REQUIRE(p.b().add_owner(kSmall, {.max_connections = 2}) == Status::Ok);
    const auto bound = p.b().bind(kSmall, {.port = 8000});
    REQUIRE(p.b().listen(kSmall, bound.value.id, 100) == Status::Ok);
    for (uint32_t i = 0; i < 3; ++i) REQUIRE(p.a().connect(p.now, kOwner, p.connect_params(kA, 8000, i)).ok());
    p.run(kMillisecond);
    CHECK(p.count(kB, EventKind::ConnectRequest) == 2);
    REQUIRE(p.count(kA, EventKind::Rejected) == 1);
    CHECK(p.events[kA][0].status == 3);
    CHECK(p.b().connect(p.now, kSmall, p.connect_params(kB, 1, 1)).status == Status::QuotaExceeded);
    REQUIRE(p.b().destroy(p.now, kSmall, p.events[kB][0].id) == Status::Ok);
    CHECK(p.b().connect(p.now, kSmall, p.connect_params(kB, 1, 1)).ok());
}

TEST_CASE("no owner holds more than are left for the others") {
    CmPair p(1, {}, {.max_owners = 8, .max_connections = 64});
    const auto take = [&](OwnerId owner) {
        uint32_t n = 0;
        while (p.a().connect(p.now, owner, p.connect_params(kA, 7000, n)).ok()) ++n;
        return n;
    };
    std::vector<uint32_t> taken{take(kOwner)};
    for (OwnerId owner = 2; owner <= 5; ++owner) {
        REQUIRE(p.a().add_owner(owner, {.max_connections = 64}) == Status::Ok);
        taken.push_back(take(owner));
    }
    CHECK(taken == std::vector<uint32_t>{32, 16, 8, 4, 2});
    CHECK(p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 1)).status == Status::QuotaExceeded);
    // What an owner gives back is for those that have less.
    p.a().remove_owner(p.now, kOwner);
    CHECK(take(2) == 9);
    CHECK(take(5) == 12);
    // So is a request of a peer for a listener of theirs.
    const auto bound = p.a().bind(2, {.port = 7000});
    REQUIRE(p.a().listen(2, bound.value.id, 10) == Status::Ok);
    REQUIRE(p.b().connect(p.now, kOwner, p.connect_params(kB, 7000, 1)).ok());
    p.run(kMillisecond);
    REQUIRE(p.count(kB, EventKind::Rejected) == 1);
    CHECK(p.last(kB).status == 3);
}

TEST_CASE("capacity: full is full, but what merely lingers makes room") {
    CmPair p(1, {}, {.max_connections = 7});
    p.listen(kB, 7000);
    std::vector<Established> open;
    for (uint32_t i = 0; i < 3; ++i) open.push_back(establish(p, 0x10 + i));
    uint32_t qpn = 0x20;
    const auto connect = [&](OwnerId owner) {
        return p.a().connect(p.now, owner, p.connect_params(kA, 7000, ++qpn)).status;
    };
    for (OwnerId owner = 2; owner <= 6; ++owner) REQUIRE(p.a().add_owner(owner, {}) == Status::Ok);
    for (const OwnerId owner : {2, 2, 3, 4}) CHECK(connect(owner) == Status::Ok);
    CHECK(connect(4) == Status::QuotaExceeded);
    CHECK(connect(5) == Status::NoResources);

    p.on_send = [](CmPair::Side, const TxMad&) { return false; };
    REQUIRE(p.a().destroy(p.now, kOwner, open[0].a) == Status::Ok);  // its DREQ is never answered
    REQUIRE(p.a().destroy(p.now, kOwner, open[1].a) == Status::Ok);
    CHECK(p.a().connections() == 7);
    CHECK(connect(5) == Status::Ok);
    CHECK(connect(5) == Status::QuotaExceeded);  // the last one is for others
    CHECK(connect(6) == Status::Ok);
    CHECK(p.a().counters().evicted == 2);
    CHECK(p.a().connections() == 7);
    REQUIRE(p.a().add_owner(7, {}) == Status::Ok);
    CHECK(connect(7) == Status::NoResources);
    CHECK(p.a().info(kOwner, open[2].a).value.state == State::Established);
}

TEST_CASE("rings that are full: MADs count as lost, events are never lost") {
    CmPair p(1, {}, {.event_capacity = 4, .transmit_capacity = 2});
    p.listen(kB, 7000);
    for (uint32_t i = 0; i < 5; ++i) REQUIRE(p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, i)).ok());
    CHECK(p.a().counters().drop_transmit_full == 3);
    // B does not poll while five requests arrive: those without room come again.
    for (int i = 0; i < 6; ++i) {
        Req req = some_req();
        req.local_comm_id = 0x100u + static_cast<uint32_t>(i);
        req.local_qpn = 0x100u + static_cast<uint32_t>(i);
        p.b().handle_mad(p.now, p.forge(kB, make_mad(1, req)));
    }
    CHECK(p.b().counters().drop_no_event_room == 3);
    p.run(200 * kSecond);
    CHECK(p.count(kB, EventKind::ConnectRequest) == 3 + 5);
}

TEST_CASE("ids do not come back soon and never fit a later connection") {
    CmPair p(1, {}, {.max_connections = 4});
    std::set<CmId> ids;
    for (int i = 0; i < 1000; ++i) {
        const auto id = p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 1));
        REQUIRE(id.ok());
        CHECK(ids.insert(id.value).second);
        REQUIRE(p.a().destroy(p.now, kOwner, id.value) == Status::Ok);
        for (TxMad tx; p.a().poll_transmit(tx);) {
        }
    }
}
