// SPDX-License-Identifier: BSD-3-Clause
// The end of a connection, and what a state does not allow: release by either side and by both, lost messages of the
// release, destruction by the owner in every state, LAP. Read IBTA volume 1, 12.9.8 and 12.8.
#include <catch2/catch.hpp>

#include "sim/cm_scene.h"

using namespace rocemu;
using namespace rocemu::cm;
using namespace rocemu::test;


TEST_CASE("both release at once") {
    Scene s;
    s.establish();
    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    REQUIRE(s.b().disconnect(s.now, kOwner, s.id_b) == Status::Ok);
    s.run(kMillisecond);
    for (const auto side : {kA, kB}) {
        CHECK(s.state(side) == State::Timewait);
        CHECK(s.count(side, EventKind::Disconnected) == 1);
        CHECK(s.sent[side] == Sent{Attribute::Dreq, Attribute::Drep});
    }
}

static void disconnect_and_lose_drep(Scene& s) {
    s.establish();
    s.lost = Attribute::Drep;
    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    REQUIRE(s.b().disconnect(s.now, kOwner, s.id_b) == Status::Ok);
}

TEST_CASE("a lost DREP: the repeated DREQ is answered in time wait and after it") {
    Scene s;
    disconnect_and_lose_drep(s);
    s.run(kMillisecond);
    s.replay(kB, s.last_sent[kA]);
    CHECK(s.sent[kB] == Sent{Attribute::Drep, Attribute::Drep});
    REQUIRE(s.b().destroy(s.now, kOwner, s.id_b) == Status::Ok);
    s.run(kSecond);
    CHECK(s.b().connections() == 0);
    s.lost = {};
    s.run(6 * kSecond);
    CHECK(s.count(kA, EventKind::Disconnected) == 1);
    CHECK(s.last(kA).status == 0);
}

TEST_CASE("a lost DREP: the repeated DREQ is answered after time wait too, while the owner keeps the id") {
    Scene s;
    disconnect_and_lose_drep(s);
    s.run(kSecond);
    REQUIRE(s.state(kB) == State::Closed);
    s.lost = {};
    s.run(5 * kSecond);  // the DREQ is repeated after 4.8 s
    REQUIRE(s.count(kA, EventKind::Disconnected) == 1);
    CHECK(s.events[kA][0].status == 0);
    CHECK(s.count(kB, EventKind::Disconnected) == 1);
    CHECK(s.sent[kA] == Sent{Attribute::Dreq, Attribute::Dreq});
    CHECK(s.sent[kB] == Sent{Attribute::Drep, Attribute::Drep});
    CHECK(s.state(kB) == State::Closed);
}

TEST_CASE("nobody answers the DREQ: disconnected with a timeout after 16 transmissions") {
    Scene s;
    s.establish();
    s.muted = kB;
    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    s.run(100 * kSecond);
    CHECK(s.sent[kA] == Sent(16, Attribute::Dreq));
    REQUIRE(s.count(kA, EventKind::Disconnected) == 1);
    CHECK(s.events[kA][0].status == kStatusTimedOut);
    CHECK(s.last(kA).kind == EventKind::TimewaitExit);
}

TEST_CASE("commands that do not exist in a state change nothing") {
    Scene s;
    s.request();
    CHECK(s.a().confirm(kOwner, s.id_a) == Status::InvalidState);
    CHECK(s.a().disconnect(s.now, kOwner, s.id_a) == Status::InvalidState);
    CHECK(s.a().accept(s.now, kOwner, s.id_a, {}) == Status::InvalidState);
    CHECK(s.a().reject(s.now, kOwner, s.id_a, {}) == Status::InvalidState);
    CHECK(s.a().notify_established(kOwner, s.id_a) == Status::InvalidState);
    CHECK(s.b().confirm(kOwner, s.id_b) == Status::InvalidState);
    CHECK(s.b().sidr_reply(s.now, kOwner, s.id_b, {}) == Status::InvalidState);
    CHECK(s.b().accept(s.now, kOwner, s.id_b, {.private_data = bytes(197, 0)}) == Status::InvalidArgument);
    CHECK(s.b().accept(s.now, kOwner, s.id_b, {.rnr_retry_count = 8}) == Status::InvalidArgument);
    CHECK(s.state(kB) == State::ReqRcvd);
    s.accept();
    CHECK(s.a().confirm(kOwner, s.id_a, bytes(225, 0)) == Status::InvalidArgument);
    CHECK(s.state(kA) == State::RepRcvd);
    auto params = s.connect_params(kA, 7000, 1);
    params.private_data = bytes(57, 0);
    const auto before = s.a().connections();
    CHECK(s.a().connect(s.now, kOwner, params).status == Status::InvalidArgument);
    params.private_data = {};
    params.path_mtu = 6;
    CHECK(s.a().connect(s.now, kOwner, params).status == Status::InvalidArgument);
    CHECK(s.a().connections() == before);
}

TEST_CASE("destroyed in every state: nothing is left, and the peer learns of it") {
    enum Point { Requested, Accepted, Confirmed, Established, Released, AnsweredRelease };
    const auto point = GENERATE(Requested, Accepted, Confirmed, Established, Released, AnsweredRelease);
    const auto side = GENERATE(kA, kB);
    INFO("point " << point << " side " << side);
    Scene s;
    s.request();
    if (point >= Accepted) s.accept();
    if (point == Confirmed) s.lost = Attribute::Rtu;
    if (point >= Confirmed) REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    if (point >= Established) s.run(kMillisecond);
    s.lost = {};
    if (point >= Released) REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    if (point >= Released) s.run(kMillisecond);
    if (point >= AnsweredRelease) REQUIRE(s.b().disconnect(s.now, kOwner, s.id_b) == Status::Ok);
    s.run(kMillisecond);
    const auto other = side == kA ? kB : kA;
    REQUIRE(s.cm(side).destroy(s.now, kOwner, side == kA ? s.id_a : s.id_b) == Status::Ok);
    CHECK(s.cm(side).destroy(s.now, kOwner, side == kA ? s.id_a : s.id_b) == Status::NotFound);
    const size_t events = s.events[side].size();
    s.run(kMillisecond);
    if (s.state(other) == State::DreqRcvd)
        CHECK(s.cm(other).disconnect(s.now, kOwner, other == kA ? s.id_a : s.id_b) == Status::Ok);
    s.run(kMillisecond);
    const State end = s.state(other);
    CHECK((end == State::Closed || end == State::Timewait || end == State::DreqRcvd));
    s.run(200 * kSecond);
    CHECK(s.cm(side).connections() == 0);
    CHECK(s.events[side].size() == events);
    REQUIRE(s.cm(other).destroy(s.now, kOwner, other == kA ? s.id_a : s.id_b) == Status::Ok);
    s.run(200 * kSecond);
    CHECK(s.cm(other).connections() == 0);
}

TEST_CASE("a LAP is refused, the connection goes on; an APR is ignored") {
    Scene s;
    s.establish();
    const uint32_t id_a = s.id_a, id_b = s.id_b;
    s.replay(kB, make_mad(77, Lap{.local_comm_id = id_a, .remote_comm_id = id_b}));
    REQUIRE(s.sent[kB] == Sent{Attribute::Apr});
    const Apr apr = Apr::parse(s.last_sent[kB]);
    CHECK(apr.status == AprStatus::Unsupported);
    CHECK(apr.local_comm_id == id_b);
    CHECK(apr.remote_comm_id == id_a);
    CHECK(MadHeader::parse(s.last_sent[kB]).transaction_id == 77);
    CHECK(s.state(kB) == State::Established);
    CHECK(s.state(kA) == State::Established);
}
