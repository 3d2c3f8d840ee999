// SPDX-License-Identifier: BSD-3-Clause
// The rdma_cm device at the border: two programs connect, refuse and part over the fabric, with real MADs between two
// NICs; what a program cannot do to another one's ids, events, ports and QPs; quotas; what is left after one dies.
#include <array>
#include <catch2/catch.hpp>

#include "support/cm_party.h"
#include "support/control_status.h"

using namespace rocemu;
using namespace rocemu::test;
using namespace rocemu::control;

TEST_CASE("a connection through two NICs, with what both sides learn of each other", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    Pair pair(world, server, client);
    CHECK(pair.request.uid == 1);
    CHECK(text(pair.request.conn) == "hello");
    CHECK(pair.request.conn.private_data_len == 56);
    CHECK(pair.request.conn.qp_num == client.qpn);
    CHECK(pair.request.conn.responder_resources == 5);  // what the client wants under way is what the server serves
    CHECK(pair.request.conn.initiator_depth == 3);
    CHECK(pair.request.conn.retry_count == 6);
    CHECK(pair.response.uid == 77);
    CHECK(text(pair.response.conn) == "welcome");
    CHECK(pair.response.conn.private_data_len == 196);
    CHECK(pair.response.conn.qp_num == server.qpn);

    const auto crtr = client.attr(pair.active, 2), crts = client.attr(pair.active, 3);
    const auto srtr = server.attr(pair.passive, 2), srts = server.attr(pair.passive, 3);
    CHECK(crtr.dest_qpn == server.qpn);
    CHECK(srtr.dest_qpn == client.qpn);
    CHECK(crtr.rq_psn == srts.sq_psn);
    CHECK(srtr.rq_psn == crts.sq_psn);
    CHECK(crtr.path_mtu == 5);
    CHECK(crts.retry_cnt == 6);
    CHECK(std::equal(std::begin(crtr.dgid), std::end(crtr.dgid), wire::Gid::from_ipv4(kFirstIp).raw.begin()));
    // The fabric's peer is reached from the other NIC, whose address is the source.
    CHECK(std::equal(std::begin(srtr.dgid), std::end(srtr.dgid), wire::Gid::from_ipv4(kSecondIp).raw.begin()));

    REQUIRE(client.c.call(abi::CmDisconnectRequest{pair.active}) == 0);
    const auto gone = server.event();
    CHECK(gone.event == cm_event::kDisconnected);
    CHECK(gone.uid == 88);
    REQUIRE(server.c.call(abi::CmDisconnectRequest{pair.passive}) == 0);
    CHECK(client.event().event == cm_event::kDisconnected);
    // Again: no error and nothing happens.
    CHECK(client.c.call(abi::CmDisconnectRequest{pair.active}) == 0);
    abi::CmDestroyIdReply destroyed;
    REQUIRE(client.c.call(abi::CmDestroyIdRequest{pair.active}, destroyed) == 0);
    CHECK(destroyed.events_reported == 4);
    REQUIRE(server.c.call(abi::CmDestroyIdRequest{pair.listener}, destroyed) == 0);
    CHECK(destroyed.events_reported == 1);
}

TEST_CASE("refusals: by the consumer with private data, without a listener", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    server.listen(kFirstIp, 7001);
    const uint32_t id = client.aim(kFirstIp, 7001, 5);
    REQUIRE(client.connect(id) == 0);
    abi::CmRejectRequest reject;
    reject.id = server.event().id;
    reject.private_data_len = 4;
    std::memcpy(reject.private_data, "nope", 4);
    REQUIRE(server.c.call(reject) == 0);
    const auto refused = client.event();
    CHECK(refused.event == cm_event::kRejected);
    CHECK(refused.status == 28);
    CHECK(text(refused.conn) == "nope");

    const uint32_t nobody = client.aim(kFirstIp, 7002, 6);
    REQUIRE(client.connect(nobody) == 0);
    const auto none = client.event();
    CHECK(none.event == cm_event::kRejected);
    CHECK(none.status == 8);  // invalid service id
    CHECK(none.uid == 6);
}

TEST_CASE("a listener hears of requests for its own kind of QP only", "[control][cm]") {
    constexpr uint16_t kIb = 0x13f;
    constexpr uint8_t kUc = 3, kXrcSend = 9, kXrcRecv = 10;
    struct Ask {
        uint16_t space;
        uint8_t listens, asks;
        uint32_t event;
        int status;
    };
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    uint16_t port = 7100;
    for (const Ask& ask : {Ask{kTcp, kRc, kUc, cm_event::kRejected, 9}, Ask{kIb, kUc, kRc, cm_event::kRejected, 9},
                           Ask{kIb, kUd, kRc, cm_event::kRejected, 9}, Ask{kIb, kRc, kUd, cm_event::kUnreachable, 1},
                           Ask{kTcp, kUc, kUc, cm_event::kConnectRequest, 0},
                           Ask{kIb, kXrcRecv, kXrcSend, cm_event::kConnectRequest, 0},
                           Ask{kIb, kUd, kUd, cm_event::kConnectRequest, 0}}) {
        INFO("space " << ask.space << " listens " << int(ask.listens) << " asks " << int(ask.asks));
        server.listen(kFirstIp, ++port, ask.space, ask.listens);
        client.make_qp();
        REQUIRE(client.connect(client.aim(kFirstIp, port, 5, ask.space, ask.asks)) == 0);
        const bool taken = ask.event == cm_event::kConnectRequest;
        const auto event = taken ? server.event() : client.event();
        CHECK(event.event == ask.event);
        CHECK(event.status == ask.status);
        if (!taken) CHECK(server.event(0).event == 0xffffffff);
    }
}

TEST_CASE("UD ids ask for a QP number and get it with an address handle", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    server.listen(kFirstIp, 7003, kUdp, kUd);
    const uint32_t id = client.aim(kFirstIp, 7003, 9, kUdp, kUd);
    REQUIRE(client.connect(id) == 0);
    const auto request = server.event();
    REQUIRE(request.event == cm_event::kConnectRequest);
    CHECK(request.datagram == 1);
    CHECK(request.conn.private_data_len == 180);
    REQUIRE(server.accept(request.id, 10) == 0);
    const auto answer = client.event();
    CHECK(answer.event == cm_event::kEstablished);
    CHECK(answer.conn.qp_num == server.qpn);
    CHECK(answer.conn.qkey == kUdpQkey);
    CHECK(answer.ah.is_global == 1);
    CHECK(answer.ah.sgid_index == 3);
    CHECK(std::equal(std::begin(answer.ah.dgid), std::end(answer.ah.dgid), wire::Gid::from_ipv4(kFirstIp).raw.begin()));
}

// ENOENT for a message of rdma_cm that names somebody else's id; 1 if it is one.
template <typename Request>
size_t refuses_foreign_id(Party& thief, std::string_view name, Request request, uint32_t id) {
    if constexpr (requires { request.id; }) {
        if (!name.starts_with("Cm")) return 0;
        INFO(name << " of id " << id);
        request.id = id;
        // Otherwise as it would be for an id of one's own.
        if constexpr (requires { request.channel; }) request.channel = thief.channel;
        if constexpr (requires { request.uid; }) request.uid = 5;
        if constexpr (requires { request.address; }) request.address = ipv4(kFirstIp, 7009);
        if constexpr (requires { request.destination; }) request.destination = ipv4(kFirstIp, 7000);
        if constexpr (requires { request.param; }) request.param = thief.param("stolen");
        CHECK(thief.c.call(request) == ENOENT);
        return 1;
    }
    return 0;
}

TEST_CASE("another program's ids and channels do not exist", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1), thief(world, 1);
    Pair pair(world, server, client);
    // Each message of the border that names an id, also those that are added one day.
    size_t tried = 0;
    for (const uint32_t id : {pair.passive, pair.listener, pair.active}) {
#define MESSAGE(name, number) tried += refuses_foreign_id(thief, #name, abi::name##Request{}, id);
#include "abi/messages.def"
#undef MESSAGE
    }
    CHECK(tried == 3 * 16);
    CHECK(thief.c.call(abi::CmGetEventRequest{thief.channel + 1}) == ENOENT);
    // A QP of somebody else's is not offered to a peer.
    const uint32_t id = thief.aim(kFirstIp, 7000, 3);
    const uint32_t own = std::exchange(thief.qpn, client.qpn);
    CHECK(thief.connect(id) == EINVAL);
    thief.qpn = own;
    // Nor can the listener's port be had.
    const uint32_t second = thief.create(4);
    CHECK(thief.c.call(abi::CmBindRequest{second, ipv4(kFirstIp, 7000)}) == EADDRINUSE);
    CHECK(thief.c.call(abi::CmBindRequest{second, ipv4(0x0acb0063, 7005)}) == EADDRNOTAVAIL);
    if (geteuid() != 0) CHECK(thief.c.call(abi::CmBindRequest{second, ipv4(kFirstIp, 80)}) == EACCES);
    // All this while the connection of the others lives.
    REQUIRE(client.c.call(abi::CmDisconnectRequest{pair.active}) == 0);
    CHECK(server.event().event == cm_event::kDisconnected);
}

TEST_CASE("a request is nobody's before its event was fetched", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    const uint32_t listener = server.listen(kFirstIp, 7006);
    const uint32_t id = client.aim(kFirstIp, 7006, 5);
    REQUIRE(client.connect(id) == 0);
    pollfd p{server.fd, POLLIN, 0};
    REQUIRE(poll(&p, 1, 20'000) == 1);
    for (uint32_t guess = 1; guess < 10; ++guess)
        if (guess != listener) CHECK(server.c.call(abi::CmDestroyIdRequest{guess}) == ENOENT);
    // With its listener it goes, and the client hears it; the record that is still on the socket leads to nothing, and the
    // program is told to take it.
    abi::CmDestroyIdReply destroyed;
    REQUIRE(server.c.call(abi::CmDestroyIdRequest{listener}, destroyed) == 0);
    CHECK(destroyed.withdrawn == server.channel);
    CHECK(client.event().event == cm_event::kRejected);
    CHECK(server.event(0).event == 0xffffffff);
}

TEST_CASE("a record is withdrawn when its channel has no event any more, not before", "[control][cm]") {
    ControlWorld world;
    Party p(world, 0);
    std::array<uint32_t, 2> ids{};
    for (uint32_t& id : ids) {
        id = p.create(7);
        abi::CmResolveAddressRequest r;
        r.id = id;
        r.destination = ipv4(kSecondIp, 7000);
        REQUIRE(p.c.call(r) == 0);
    }
    abi::CmDestroyIdReply destroyed;
    REQUIRE(p.c.call(abi::CmDestroyIdRequest{ids[0]}, destroyed) == 0);
    CHECK(destroyed.withdrawn == 0);
    REQUIRE(p.c.call(abi::CmDestroyIdRequest{ids[1]}, destroyed) == 0);
    CHECK(destroyed.withdrawn == p.channel);
    char record;
    CHECK(recv(p.fd, &record, 1, MSG_DONTWAIT) == 1);
    CHECK(recv(p.fd, &record, 1, MSG_DONTWAIT) == -1);
    // Events come as ever, and one that was fetched withdraws nothing.
    const uint32_t id = p.aim(kSecondIp, 7000, 8);
    REQUIRE(p.c.call(abi::CmDestroyIdRequest{id}, destroyed) == 0);
    CHECK(destroyed.withdrawn == 0);
}

TEST_CASE("events move with an id to another channel", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    const uint32_t listener = server.listen(kFirstIp, 7007);
    const uint32_t id = client.aim(kFirstIp, 7007, 5);
    REQUIRE(client.connect(id) == 0);
    pollfd p{server.fd, POLLIN, 0};
    REQUIRE(poll(&p, 1, 20'000) == 1);
    const int old = server.fd;
    server.channel = server.open_channel(&server.fd);
    abi::CmMigrateReply moved;
    REQUIRE(server.c.call(abi::CmMigrateRequest{listener, server.channel}, moved) == 0);
    CHECK((moved.withdrawn != 0 && moved.withdrawn != server.channel));
    const auto request = server.event();
    REQUIRE(request.event == cm_event::kConnectRequest);
    close(old);
    REQUIRE(server.accept(request.id, 6) == 0);
    CHECK(client.event().event == cm_event::kConnectResponse);
}

TEST_CASE("a program that dies and a channel that is closed tell the peer, and leave nothing", "[control][cm]") {
    ControlWorld world;
    Party server(world, 0);
    server.listen(kFirstIp, 7008);
    for (const bool dies : {true, false}) {
        Party client(world, 1);
        const uint32_t id = client.aim(kFirstIp, 7008, 5);
        REQUIRE(client.connect(id) == 0);
        const uint32_t passive = server.event().id;
        REQUIRE(server.accept(passive, 6) == 0);
        REQUIRE(client.event().event == cm_event::kConnectResponse);
        REQUIRE(client.confirm(id) == 0);
        REQUIRE(server.event().event == cm_event::kEstablished);
        if (dies) {
            client.c.disconnect();
        } else {
            close(std::exchange(client.fd, -1));
        }
        CHECK(server.event().event == cm_event::kDisconnected);
        REQUIRE(server.c.call(abi::CmDestroyIdRequest{passive}) == 0);
        if (!dies) CHECK(client.c.call(abi::CmQueryRequest{id}) == ENOENT);
    }
}

TEST_CASE("a thousand connections at once through one listener, and nothing of them afterwards", "[control][cm]") {
    constexpr uint32_t kCount = 1000;
    ControlWorld world;
    Party server(world, 0), client(world, 1);
    const uint32_t listener = server.create(1);
    REQUIRE(server.c.call(abi::CmBindRequest{listener, ipv4(kFirstIp, 7010)}) == 0);
    REQUIRE(server.c.call(abi::CmListenRequest{listener, kCount}) == 0);
    std::vector<uint32_t> active, passive;
    for (uint32_t i = 0; i < kCount; ++i) active.push_back(client.aim(kFirstIp, 7010, 100 + i));
    for (uint32_t i = 0; i < kCount; ++i) {
        client.make_qp();  // a QP that asks again would be taken for one whose connection is dead
        REQUIRE(client.connect(active[i]) == 0);
        const auto request = server.event();
        REQUIRE(request.event == cm_event::kConnectRequest);
        passive.push_back(request.id);
    }
    for (uint32_t i = 0; i < kCount; ++i) {
        server.make_qp();
        REQUIRE(server.accept(passive[i], 10000 + i) == 0);
    }
    for (uint32_t i = 0; i < kCount; ++i) {
        const auto response = client.event();
        REQUIRE(response.event == cm_event::kConnectResponse);
        REQUIRE(client.confirm(response.id) == 0);
        REQUIRE(server.event().event == cm_event::kEstablished);
    }
    CHECK(status_of(world)["cm"]["connections"] == 2 * kCount);
    close(std::exchange(client.fd, -1));
    for (uint32_t i = 0; i < kCount; ++i) REQUIRE(server.event().event == cm_event::kDisconnected);
    close(std::exchange(server.fd, -1));
    int left = -1;
    for (int i = 0; i < 3000 && left != 0; ++i) {
        left = status_of(world)["cm"]["connections"];
        if (left != 0) usleep(10'000);
    }
    CHECK(left == 0);
}

TEST_CASE("the quota of rdma_cm ids holds, for requests of peers too", "[control][cm]") {
    ControlWorld world([](config::Config& c) { c.limits.max_cm_ids = 3; });
    Party server(world, 0), client(world, 1);
    server.listen(kFirstIp, 7009);
    server.create(2);
    server.create(3);
    abi::CmCreateIdReply r;
    CHECK(server.c.call(abi::CmCreateIdRequest{4, server.channel, kTcp, kRc}, r) == ENOMEM);
    const uint32_t id = client.aim(kFirstIp, 7009, 5);
    REQUIRE(client.connect(id) == 0);
    const auto refused = client.event();
    CHECK(refused.event == cm_event::kRejected);
    CHECK(refused.status == 3);  // no resources
}

TEST_CASE("commands out of their order and with nonsense are EINVAL", "[control][cm]") {
    ControlWorld world;
    Party p(world, 0);
    const uint32_t id = p.create(1);
    CHECK(p.connect(id) == EINVAL);
    CHECK(p.accept(id, 1) == EINVAL);
    CHECK(p.confirm(id) == EINVAL);
    CHECK(p.c.call(abi::CmDisconnectRequest{id}) == EINVAL);
    CHECK(p.c.call(abi::CmRejectRequest{id}) == EINVAL);
    CHECK(p.c.call(abi::CmResolveRouteRequest{id}) == EINVAL);
    CHECK(p.c.call(abi::CmInitQpAttrRequest{id, 1}) == EINVAL);
    abi::CmResolveAddressRequest r;
    r.id = id;
    CHECK(p.c.call(r) == EINVAL);
    r.destination = ipv4(0, 7);
    CHECK(p.c.call(r) == EINVAL);
    r.destination.family = 9;
    CHECK(p.c.call(r) == EINVAL);
    abi::CmCreateIdReply made;
    CHECK(p.c.call(abi::CmCreateIdRequest{1, p.channel, 0x999, kRc}, made) == EINVAL);
    CHECK(p.c.call(abi::CmCreateIdRequest{1, p.channel, kTcp, 77}, made) == EINVAL);
    abi::CmSetOptionRequest option;
    option.id = id;
    option.option = 3;
    option.length = 1;
    option.value[0] = 32;
    CHECK(p.c.call(option) == EINVAL);
    option.value[0] = 14;
    CHECK(p.c.call(option) == 0);
    option.length = 200;
    CHECK(p.c.call(option) == EINVAL);
    CHECK(p.c.call(abi::CmOpenChannelRequest{}) == EINVAL);  // without a descriptor
}
