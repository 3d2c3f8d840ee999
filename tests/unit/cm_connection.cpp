// SPDX-License-Identifier: BSD-3-Clause
// A connection on its way to "established", step by step: the messages of each state, duplicates, lost messages,
// refusals. Read IBTA volume 1, 12.9.7.
#include <catch2/catch.hpp>

#include "sim/cm_scene.h"

using namespace rocemu;
using namespace rocemu::cm;
using namespace rocemu::test;

TEST_CASE("a connection: messages, events and what both ends know") {
    Scene s;
    auto params = s.connect_params(kA, 7000, kQpnA);
    const auto hello = bytes(56, 1), answer = bytes(196, 2), ready = bytes(224, 3), bye = bytes(220, 4);
    params.private_data = hello;
    params.qkey = 0x777;
    params.cookie = 42;
    params.srq = true;
    params.flow_control = true;
    params.rnr_retry_count = 3;
    params.retry_count = 5;
    s.id_a = s.a().connect(s.now, kOwner, params).value;
    s.run(kMillisecond);

    REQUIRE(s.count(kB, EventKind::ConnectRequest) == 1);
    const Event& e = s.last(kB);
    s.id_b = e.id;
    CHECK(e.binding == s.listening);
    CHECK(e.cookie == 7000);
    CHECK(e.info.remote_qpn == kQpnA);
    CHECK(e.info.remote_psn == params.starting_psn);
    CHECK(e.info.responder_resources == 3);  // A wants 3 READs under way: B must serve them
    CHECK(e.info.initiator_depth == 4);
    CHECK(e.info.qkey == 0x777);
    CHECK(e.info.srq);
    CHECK(e.info.flow_control);
    CHECK(e.info.rnr_retry_count == 3);
    CHECK(e.info.retry_count == 5);
    CHECK(e.info.path_mtu == 3);
    CHECK(e.info.ack_timeout == 17);
    CHECK(e.info.ip == params.target.ip);
    CHECK(e.info.service_port == 7000);
    CHECK(e.info.path.local_gid == CmPair::gid(kB));
    CHECK(e.info.path.remote_gid == CmPair::gid(kA));
    CHECK(e.info.remote_ca_guid == CmPair::guid(kA));
    REQUIRE(e.private_data_size == 56);
    CHECK(std::equal(hello.begin(), hello.end(), e.private_data.begin()));

    REQUIRE(s.b().accept(s.now, kOwner, s.id_b,
                         {.cookie = 5,
                          .local_qpn = kQpnB,
                          .starting_psn = 99,
                          .responder_resources = 2,
                          .initiator_depth = 1,
                          .rnr_retry_count = 6,
                          .private_data = answer}) == Status::Ok);
    s.run(kMillisecond);
    REQUIRE(s.count(kA, EventKind::ConnectResponse) == 1);
    const Event& r = s.last(kA);
    CHECK(r.id == s.id_a);
    CHECK(r.cookie == 42);
    CHECK(r.info.remote_qpn == kQpnB);
    CHECK(r.info.remote_psn == 99);
    CHECK(r.info.initiator_depth == 2);
    CHECK(r.info.responder_resources == 1);
    CHECK(r.info.rnr_retry_count == 6);
    REQUIRE(r.private_data_size == 196);
    CHECK(std::equal(answer.begin(), answer.end(), r.private_data.begin()));

    REQUIRE(s.a().confirm(kOwner, s.id_a, ready) == Status::Ok);
    s.run(kMillisecond);
    REQUIRE(s.count(kB, EventKind::Established) == 1);
    CHECK(s.last(kB).cookie == 5);
    CHECK(std::equal(ready.begin(), ready.end(), s.last(kB).private_data.begin()));

    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a, bye) == Status::Ok);
    s.run(kMillisecond);
    REQUIRE(s.count(kB, EventKind::Disconnected) == 1);
    CHECK(s.last(kB).status == 0);
    CHECK(std::equal(bye.begin(), bye.end(), s.last(kB).private_data.begin()));
    CHECK(s.state(kB) == State::DreqRcvd);
    CHECK(s.count(kA, EventKind::Disconnected) == 0);
    REQUIRE(s.b().disconnect(s.now, kOwner, s.id_b) == Status::Ok);
    const Instant released = s.now;
    s.run(kMillisecond);
    CHECK(s.count(kA, EventKind::Disconnected) == 1);
    CHECK(s.state(kA) == State::Timewait);
    while (s.count(kB, EventKind::TimewaitExit) == 0) REQUIRE(s.step());
    CHECK(s.now - released == Duration{4096} << 17);
    s.run(kSecond);
    CHECK(s.count(kA, EventKind::TimewaitExit) == 1);
    CHECK(s.state(kA) == State::Closed);
    CHECK(s.sent[kA] == Sent{Attribute::Req, Attribute::Rtu, Attribute::Dreq});
    CHECK(s.sent[kB] == Sent{Attribute::Rep, Attribute::Drep});
}

TEST_CASE("XRC: the REP has the target QP in the place of the EE context, as Linux reads and writes it") {
    Scene s;
    auto params = s.connect_params(kA, 7001, kQpnA);
    params.transport = Transport::Xrc;
    s.listen(kB, 7001, 10, PortSpace::Tcp, Transport::Xrc);
    s.id_a = s.a().connect(s.now, kOwner, params).value;
    s.run(kMillisecond);
    REQUIRE(s.count(kB, EventKind::ConnectRequest) == 1);
    CHECK(s.last(kB).info.transport == Transport::Xrc);
    CHECK(s.last(kB).info.remote_qpn == kQpnA);
    s.id_b = s.last(kB).id;
    s.accept();
    const std::byte* rep = body_of(s.last_sent[kB]);
    CHECK(load_be24(rep + 12) == 0);  // local QPN
    CHECK(load_be24(rep + 16) == kQpnB);
    CHECK((rep[27] & std::byte{0x10}) != std::byte{0});  // SRQ
    REQUIRE(s.count(kA, EventKind::ConnectResponse) == 1);
    CHECK(s.last(kA).info.remote_qpn == kQpnB);
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    CHECK(Dreq::parse(s.last_sent[kA]).remote_qpn == kQpnB);
    CHECK(s.last(kB).kind == EventKind::Disconnected);
}

TEST_CASE("the REP was lost and the REQ comes again: the REP goes out again, one event only") {
    Scene s;
    s.request();
    s.lost = Attribute::Rep;
    s.accept();
    const Mad rep = s.last_sent[kB];
    s.lost = {};
    s.replay(kB, s.last_sent[kA]);
    CHECK(s.last_sent[kB] == rep);
    CHECK(s.count(kB, EventKind::ConnectRequest) == 1);
    CHECK(s.state(kA) == State::RepRcvd);
}

TEST_CASE("a consumer that takes its time: the repeated message is answered with an MRA") {
    Scene s;
    s.request();
    s.run(6 * kSecond);  // the REQ is repeated after 4.8 s
    CHECK(s.state(kB) == State::MraReqSent);
    CHECK(s.state(kA) == State::MraReqRcvd);
    CHECK(s.last_sent[kB] != Mad{});
    CHECK(Mra::parse(s.last_sent[kB]).service_timeout == 24);
    CHECK(s.sent[kB] == Sent{Attribute::Mra});
    s.run(60 * kSecond);
    CHECK(s.sent[kA] == Sent{Attribute::Req, Attribute::Req});  // A waits 69 s
    s.run(12 * kSecond);
    CHECK(s.sent[kA].size() >= 3);
    s.accept();
    CHECK(s.state(kA) == State::RepRcvd);
    s.run(6 * kSecond);
    CHECK(s.state(kA) == State::MraRepSent);
    CHECK(s.state(kB) == State::MraRepRcvd);
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.state(kB) == State::Established);
    CHECK(s.count(kA, EventKind::Unreachable) == 0);
}

TEST_CASE("a lost RTU: the repeated REP brings it again") {
    Scene s;
    s.request();
    s.accept();
    s.lost = Attribute::Rtu;
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.state(kB) == State::RepSent);
    s.lost = {};
    s.run(6 * kSecond);
    CHECK(s.state(kB) == State::Established);
    CHECK(s.sent[kA] == Sent{Attribute::Req, Attribute::Rtu, Attribute::Rtu});
}

TEST_CASE("a lost RTU, but data arrives: established, and the late RTU changes nothing") {
    Scene s;
    s.request();
    s.accept();
    s.lost = Attribute::Rtu;
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.b().notify_established(kOwner, s.id_b) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.count(kB, EventKind::Established) == 1);
    CHECK(s.b().notify_established(kOwner, s.id_b) == Status::Ok);
    s.replay(kB, s.last_sent[kA]);
    s.run(100 * kSecond);
    CHECK(s.count(kB, EventKind::Established) == 1);
    CHECK(s.sent[kB] == Sent{Attribute::Rep});
}

TEST_CASE("a lost RTU and a DREQ after it: disconnected") {
    Scene s;
    s.request();
    s.accept();
    s.lost = Attribute::Rtu;
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    REQUIRE(s.a().disconnect(s.now, kOwner, s.id_a) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.last(kB).kind == EventKind::Disconnected);
    CHECK(s.b().disconnect(s.now, kOwner, s.id_b) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.state(kA) == State::Timewait);
}

TEST_CASE("no RTU at all: unreachable at the passive side, the active side is told") {
    Scene s;
    s.request();
    s.accept();
    s.lost = Attribute::Rtu;
    REQUIRE(s.a().confirm(kOwner, s.id_a) == Status::Ok);
    s.run(100 * kSecond);
    CHECK(s.last(kB).kind == EventKind::Unreachable);
    CHECK(s.last(kB).status == kStatusTimedOut);
    REQUIRE(s.count(kA, EventKind::Rejected) == 1);
    const auto rejected = std::find_if(s.events[kA].begin(), s.events[kA].end(),
                                       [](const Event& e) { return e.kind == EventKind::Rejected; });
    CHECK(rejected->status == 4);
    CHECK(s.count(kA, EventKind::TimewaitExit) == 1);
}

TEST_CASE("rejected by the consumer: reason, information and private data; a repeated REQ gets the REJ again") {
    Scene s;
    s.request();
    const auto info = bytes(72, 9), data = bytes(148, 7);
    CHECK(s.b().reject(s.now, kOwner, s.id_b, {.private_data = bytes(149, 0)}) == Status::InvalidArgument);
    CHECK(s.b().reject(s.now, kOwner, s.id_b, {.info = bytes(73, 0)}) == Status::InvalidArgument);
    s.lost = Attribute::Rej;
    REQUIRE(s.b().reject(s.now, kOwner, s.id_b,
                         {.reason = RejectReason::ConsumerDefined, .info = info, .private_data = data}) == Status::Ok);
    s.run(kMillisecond);
    CHECK(Rej::parse(s.last_sent[kB]).local_comm_id == 0);  // A has never heard an id of B
    CHECK(Rej::parse(s.last_sent[kB]).message == MessageKind::Req);
    REQUIRE(s.b().destroy(s.now, kOwner, s.id_b) == Status::Ok);
    s.lost = {};
    s.run(6 * kSecond);
    REQUIRE(s.last(kA).kind == EventKind::Rejected);
    CHECK(s.last(kA).status == 28);
    CHECK(s.last(kA).reject_info_size == 72);
    CHECK(std::equal(info.begin(), info.end(), s.last(kA).reject_info.begin()));
    CHECK(s.last(kA).private_data_size == 148);
    CHECK(std::equal(data.begin(), data.end(), s.last(kA).private_data.begin()));
    CHECK(s.count(kB, EventKind::ConnectRequest) == 1);
    CHECK(s.state(kA) == State::Closed);
    s.run(100 * kSecond);
    CHECK(s.b().connections() == 0);
}

TEST_CASE("the active consumer refuses the REP") {
    Scene s;
    s.request();
    s.accept();
    REQUIRE(s.a().reject(s.now, kOwner, s.id_a, {}) == Status::Ok);
    s.run(kMillisecond);
    CHECK(s.last(kB).kind == EventKind::Rejected);
    CHECK(s.last(kB).status == 28);
    CHECK(Rej::parse(s.last_sent[kA]).message == MessageKind::Rep);
}
