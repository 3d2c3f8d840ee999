// SPDX-License-Identifier: BSD-3-Clause
// The manager around the connections: refusals without a connection, stale connections, peers that are not who they
// say, SIDR. Read IBTA volume 1, 12.9.5 to 12.9.8, annex A11.
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

// What B answers to one MAD of A, if anything.
std::optional<Mad> answer_to(CmPair& p, const Mad& mad) {
    p.b().handle_mad(p.now, p.forge(kB, mad));
    TxMad tx;
    if (!p.b().poll_transmit(tx)) return std::nullopt;
    const Mad answer = tx.mad;
    CHECK_FALSE(p.b().poll_transmit(tx));
    return answer;
}

RejectReason reason_of(const std::optional<Mad>& mad) {
    REQUIRE(mad);
    REQUIRE(attribute_of(*mad) == Attribute::Rej);
    const Rej rej = Rej::parse(*mad);
    CHECK(rej.local_comm_id == 0);
    CHECK(rej.remote_comm_id == 0x1234);
    return rej.reason;
}

}  // namespace

TEST_CASE("reasons to refuse a REQ") {
    CmPair p;
    Req req = some_req();
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidServiceId);
    p.listen(kB, 7000);
    p.listen(kB, 7001, 10, PortSpace::Udp);

    req.service_id = service_id_of({PortSpace::Tcp, 7001});
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidServiceId);
    req.service_id = service_id_of({PortSpace::Udp, 7001});  // a UDP listener takes SIDR only
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidServiceId);
    req.service_id = 0x1000000000000001;
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidServiceId);

    req = some_req();
    req.transport_service = 2;  // RD
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidTransportType);
    req = some_req();
    req.primary.remote_gid = CmPair::gid(kA);
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidGid);
    req = some_req();
    req.private_data[0] = std::byte{0x20};
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::ConsumerDefined);
    for (const int sl : {8, 15}) {
        req = some_req();
        req.primary.sl = static_cast<uint8_t>(sl);
        CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidSl);
    }
    for (const int mtu : {0, 6, 15}) {
        req = some_req();
        req.path_mtu = static_cast<uint8_t>(mtu);
        CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidMtu);
    }

    Mad newer = make_mad(5, some_req());
    newer[2] = std::byte{3};
    CHECK(reason_of(answer_to(p, newer)) == RejectReason::InvalidClassVersion);

    // Nothing is answered to what does not come from where it says, or is no CM message.
    req = some_req();
    req.primary.local_gid = wire::Gid::from_ipv4(0x01020304);
    CHECK_FALSE(answer_to(p, make_mad(5, req)));
    for (const size_t byte : {0, 1, 3}) {
        Mad bad = make_mad(5, some_req());
        bad[byte] ^= std::byte{0x40};
        CHECK_FALSE(answer_to(p, bad));
    }
    Mad unknown = make_mad(5, some_req());
    unknown[17] = std::byte{0x55};
    CHECK_FALSE(answer_to(p, unknown));
    auto rx = p.forge(kB, make_mad(5, some_req()));
    rx.source_qpn = 0x77;  // some program's UD QP
    p.b().handle_mad(p.now, rx);
    CHECK(p.b().connections() == 0);
    CHECK(p.b().counters().drop_malformed == 5);

    req = some_req();
    req.primary.sl = 7;
    req.path_mtu = 5;
    CHECK_FALSE(answer_to(p, make_mad(5, req)));
    CHECK(p.b().connections() == 1);
}

TEST_CASE("a listener takes requests for its own kind of QP only") {
    CmPair p;
    const auto rc = Transport::Rc, uc = Transport::Uc, xrc = Transport::Xrc;
    uint16_t port = 7000;
    for (const auto space : {PortSpace::Tcp, PortSpace::Ib})
        for (const auto listens : {rc, uc, xrc}) {
            p.listen(kB, ++port, 10, space, listens);
            for (const auto asks : {rc, uc, xrc}) {
                Req req = some_req();
                req.service_id = service_id_of({space, port});
                req.transport_service = static_cast<uint8_t>(asks);
                req.extended_transport = asks == xrc ? 1 : 0;
                // IDs and QP of their own: one that is taken stays.
                if (asks == listens) req.local_comm_id = req.local_qpn = port;
                const auto answer = answer_to(p, make_mad(5, req));
                if (asks != listens) CHECK(reason_of(answer) == RejectReason::InvalidTransportType);
                if (asks == listens) CHECK_FALSE(answer);
            }
            if (space == PortSpace::Tcp) continue;
            SidrReq ask{.request_id = 3, .service_id = service_id_of({space, port})};
            IpHeader{.source = CmPair::gid(kA), .destination = CmPair::gid(kB)}.write(ask.private_data);
            const auto answer = answer_to(p, make_mad(5, ask));
            REQUIRE(answer);
            CHECK(SidrRep::parse(*answer).status == SidrStatus::ServiceNotSupported);
        }
    CHECK(p.b().connections() == 6);

    const auto datagrams = p.b().bind(kOwner, {.port_space = PortSpace::Ib, .port = 8000, .transport = std::nullopt});
    REQUIRE(p.b().listen(kOwner, datagrams.value.id, 10) == Status::Ok);
    Req req = some_req();
    req.service_id = service_id_of({PortSpace::Ib, 8000});
    CHECK(reason_of(answer_to(p, make_mad(5, req))) == RejectReason::InvalidTransportType);
    SidrReq ask{.request_id = 4, .service_id = req.service_id};
    IpHeader{.source = CmPair::gid(kA), .destination = CmPair::gid(kB)}.write(ask.private_data);
    CHECK_FALSE(answer_to(p, make_mad(5, ask)));
    p.pump();
    CHECK(p.last(kB).kind == EventKind::SidrRequest);
    CHECK(p.b().counters().rejected_wrong_transport == 6 * 2 + 3 + 1);
}

TEST_CASE("messages about connections that do not exist") {
    CmPair p;
    const auto drep = answer_to(p, make_mad(9, Dreq{.local_comm_id = 1, .remote_comm_id = 2}));
    REQUIRE(drep);
    CHECK(attribute_of(*drep) == Attribute::Drep);
    CHECK(Drep::parse(*drep).local_comm_id == 2);
    CHECK(Drep::parse(*drep).remote_comm_id == 1);
    const auto rej = answer_to(p, make_mad(9, Rep{.local_comm_id = 1, .remote_comm_id = 2}));
    REQUIRE(rej);
    CHECK(Rej::parse(*rej).reason == RejectReason::InvalidCommId);
    CHECK(Rej::parse(*rej).message == MessageKind::Rep);
    for (const Mad& silent :
         {make_mad(9, Drep{.local_comm_id = 1, .remote_comm_id = 2}),
          make_mad(9, Rej{.local_comm_id = 1, .remote_comm_id = 2}),
          make_mad(9, Mra{.local_comm_id = 1, .remote_comm_id = 2}),
          make_mad(9, Lap{.local_comm_id = 1, .remote_comm_id = 2}), make_mad(9, SidrRep{.request_id = 2})})
        CHECK_FALSE(answer_to(p, silent));
}

TEST_CASE("a stranger who knows the ids changes nothing") {
    CmPair p;
    p.listen(kB, 7000);
    const auto e = establish(p, 0x10);
    const auto stranger = [&](const Mad& mad) {
        auto rx = p.forge(kB, mad);
        rx.path.remote_gid = wire::Gid::from_ipv4(0x0a000063);
        p.b().handle_mad(p.now, rx);
        rx = p.forge(kB, mad);
        rx.path.port = 1;
        p.b().handle_mad(p.now, rx);
        p.run(kMillisecond);
    };
    const size_t events = p.events[kB].size();
    stranger(make_mad(1, Dreq{.local_comm_id = e.a, .remote_comm_id = e.b, .remote_qpn = 0x1010}));
    stranger(make_mad(1, Rej{.local_comm_id = e.a, .remote_comm_id = e.b, .message = MessageKind::Other}));
    CHECK(p.b().counters().drop_wrong_peer == 4);
    // The right peer with the wrong id of its own, or the wrong QP.
    p.b().handle_mad(p.now,
                     p.forge(kB, make_mad(1, Dreq{.local_comm_id = 5, .remote_comm_id = e.b, .remote_qpn = 0x1010})));
    p.b().handle_mad(p.now,
                     p.forge(kB, make_mad(1, Dreq{.local_comm_id = e.a, .remote_comm_id = e.b, .remote_qpn = 7})));
    p.run(kMillisecond);
    CHECK(p.events[kB].size() == events);
    CHECK(p.b().info(kOwner, e.b).value.state == State::Established);
}

TEST_CASE("a stale connection: the new request is refused with reason 10 and the old one released") {
    CmPair p;
    p.listen(kB, 7000);
    const auto old = establish(p, 0x10);
    // A forgets everything, as after a crash, and uses its QP again.
    p.on_send = [](CmPair::Side side, const TxMad&) { return side != kA; };
    p.a().remove_owner(p.now, kOwner);
    p.run(200 * kSecond);
    p.on_send = nullptr;
    REQUIRE(p.a().connections() == 0);
    REQUIRE(p.a().add_owner(kOwner, {}) == Status::Ok);
    const CmId again = p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 0x10)).value;
    p.run(100 * kMillisecond);
    REQUIRE(p.last(kA).kind == EventKind::Rejected);
    CHECK(p.last(kA).status == 10);
    CHECK(p.a().info(kOwner, again).value.state == State::Timewait);
    CHECK(p.last(kB).kind == EventKind::Disconnected);
    CHECK(p.last(kB).id == old.b);
    establish(p, 0x10);  // and now it works
}

TEST_CASE("a half-open connection of a QP gives way to its next request") {
    CmPair p;
    p.listen(kB, 7000);
    Req req = some_req();
    CHECK_FALSE(answer_to(p, make_mad(5, req)));
    p.pump();
    const CmId first = p.last(kB).id;
    req.local_comm_id = 0x1235;
    const auto answer = answer_to(p, make_mad(6, req));
    REQUIRE(answer);
    CHECK(Rej::parse(*answer).reason == RejectReason::StaleConnection);
    p.pump();
    CHECK(p.last(kB).kind == EventKind::Rejected);
    CHECK(p.last(kB).id == first);
    CHECK_FALSE(answer_to(p, make_mad(7, req)));
    p.pump();
    CHECK(p.last(kB).kind == EventKind::ConnectRequest);
}

TEST_CASE("a REP that names the QP of another connection is stale") {
    CmPair p;
    p.listen(kB, 7000);
    const auto old = establish(p, 0x10);
    const CmId id = p.a().connect(p.now, kOwner, p.connect_params(kA, 7000, 0x11)).value;
    Rep rep{.local_comm_id = 0x99, .remote_comm_id = id, .local_qpn = 0x1010, .local_ca_guid = CmPair::guid(kB)};
    rep.rnr_retry_count = 7;
    p.a().handle_mad(p.now, p.forge(kA, make_mad(3, rep)));
    std::vector<Event> events;
    for (Event e; p.a().poll_event(e);) events.push_back(e);
    REQUIRE(events.size() == 1);
    CHECK(events[0].id == id);
    CHECK(events[0].kind == EventKind::Rejected);
    CHECK(events[0].status == 10);
    CHECK(p.a().info(kOwner, old.a).value.state == State::DreqSent);
}

TEST_CASE("SIDR: answered, refused, without listener, silent") {
    CmPair p;
    SidrRequestParams params;
    params.target = p.connect_params(kA, 7000, 1).target;
    params.target.port_space = PortSpace::Udp;
    params.path = p.connect_params(kA, 7000, 1).path;
    const std::vector<std::byte> hello(180, std::byte{5}), answer(136, std::byte{6});
    params.private_data = hello;
    REQUIRE(p.a().sidr_request(p.now, kOwner, params).ok());
    p.run(kMillisecond);
    REQUIRE(p.last(kA).kind == EventKind::SidrResult);
    CHECK(p.last(kA).status == 1);

    p.listen(kB, 7000, 10, PortSpace::Udp);
    const CmId id = p.a().sidr_request(p.now, kOwner, params).value;
    p.run(kMillisecond);
    REQUIRE(p.last(kB).kind == EventKind::SidrRequest);
    CHECK(p.last(kB).cookie == 7000);
    CHECK(p.last(kB).private_data_size == 180);
    CHECK(p.last(kB).private_data[179] == std::byte{5});
    CHECK(p.last(kB).info.ip == params.target.ip);
    const CmId request = p.last(kB).id;
    CHECK(p.b().accept(p.now, kOwner, request, {}) == Status::InvalidState);
    CHECK(p.b().reject(p.now, kOwner, request, {}) == Status::InvalidState);
    REQUIRE(p.b().sidr_reply(p.now, kOwner, request, {.qpn = 0x55, .qkey = 0x66, .private_data = answer}) ==
            Status::Ok);
    p.run(kMillisecond);
    REQUIRE(p.last(kA).kind == EventKind::SidrResult);
    CHECK(p.last(kA).id == id);
    CHECK(p.last(kA).status == 0);
    CHECK(p.last(kA).info.remote_qpn == 0x55);
    CHECK(p.last(kA).info.qkey == 0x66);
    CHECK(p.last(kA).private_data_size == 136);

    REQUIRE(p.a().sidr_request(p.now, kOwner, params).ok());
    p.run(kMillisecond);
    REQUIRE(p.b().destroy(p.now, kOwner, p.last(kB).id) == Status::Ok);
    p.run(kMillisecond);
    CHECK(p.last(kA).status == 2);

    p.on_send = [](CmPair::Side, const TxMad&) { return false; };
    REQUIRE(p.a().sidr_request(p.now, kOwner, params).ok());
    p.run(100 * kSecond);
    CHECK(p.last(kA).status == kStatusTimedOut);
    CHECK(p.a().next_deadline() == kNever);
}

TEST_CASE("a connection to oneself") {
    CmPair p;
    p.listen(kA, 7000);
    auto params = p.connect_params(kA, 7000, 0x10);
    params.path.remote_gid = params.target.ip.destination = CmPair::gid(kA);
    const CmId active = p.a().connect(p.now, kOwner, params).value;
    p.run(kMillisecond);
    REQUIRE(p.last(kA).kind == EventKind::ConnectRequest);
    const CmId passive = p.last(kA).id;
    REQUIRE(p.a().accept(p.now, kOwner, passive, {.local_qpn = 0x11}) == Status::Ok);
    p.run(kMillisecond);
    REQUIRE(p.a().confirm(kOwner, active) == Status::Ok);
    p.run(kMillisecond);
    CHECK(p.last(kA).kind == EventKind::Established);
    REQUIRE(p.a().destroy(p.now, kOwner, active) == Status::Ok);
    p.run(kMillisecond);
    CHECK(p.last(kA).kind == EventKind::Disconnected);
    REQUIRE(p.a().destroy(p.now, kOwner, passive) == Status::Ok);
    p.run_to_end();
    CHECK(p.a().connections() == 0);
}

TEST_CASE("a lost SIDR_REP is sent again, also after its owner has destroyed the id, and then nothing is left") {
    CmPair p;
    p.listen(kB, 7000, 10, PortSpace::Udp);
    SidrRequestParams params;
    params.target = p.connect_params(kA, 7000, 1).target;
    params.target.port_space = PortSpace::Udp;
    params.path = p.connect_params(kA, 7000, 1).path;
    REQUIRE(p.a().sidr_request(p.now, kOwner, params).ok());
    p.run(kMillisecond);
    p.on_send = [](CmPair::Side side, const TxMad&) { return side != kB; };
    REQUIRE(p.b().sidr_reply(p.now, kOwner, p.last(kB).id, {.qpn = 0x55}) == Status::Ok);
    p.run(kMillisecond);
    REQUIRE(p.b().destroy(p.now, kOwner, p.last(kB).id) == Status::Ok);
    p.on_send = nullptr;
    p.run(6 * kSecond);
    REQUIRE(p.last(kA).kind == EventKind::SidrResult);
    CHECK(p.last(kA).info.remote_qpn == 0x55);
    CHECK(p.count(kB, EventKind::SidrRequest) == 1);
    p.run(60 * kSecond);
    CHECK(p.b().connections() == 0);
}
