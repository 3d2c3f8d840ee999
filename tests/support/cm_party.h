// SPDX-License-Identifier: BSD-3-Clause
// A program that uses the rdma_cm device of a ControlWorld: its event channel, ids and QPs, and two of them connected.
#pragma once

#include <poll.h>

#include <catch2/catch.hpp>

#include "control/cm_values.h"
#include "support/control_world.h"

namespace rocemu::test {

inline constexpr uint16_t kTcp = 0x106, kUdp = 0x111;
inline constexpr uint8_t kRc = 2, kUd = 4;

inline abi::CmAddress ipv4(uint32_t address, uint16_t port) {
    abi::CmAddress a;
    const auto gid = wire::Gid::from_ipv4(address);
    std::copy(gid.raw.begin(), gid.raw.end(), a.address);
    a.port = port;
    a.family = 4;
    return a;
}
inline constexpr uint32_t kFirstIp = 0x0acb0001, kSecondIp = 0x0acb0002;  // 10.203.0.1, 10.203.0.2

// A program with one event channel and a QP on `device`.
struct Party {
    // `turn`: as for ControlClient.
    explicit Party(ControlWorld& world, uint32_t device = 0, const std::function<void()>& turn = {}) : c(world.path(), turn) {
        c.open(device);
        REQUIRE(c.status == 0);
        channel = open_channel(&fd);
        make_qp();
    }
    ~Party() {
        if (fd >= 0) close(fd);
    }
    void make_qp() {
        abi::CreateQpReply r;
        REQUIRE(c.call(c.qp_request(), r) == 0);
        qpn = r.qpn;
    }
    uint32_t open_channel(int* mine) {
        int pair[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        abi::CmOpenChannelReply r;
        REQUIRE(c.call(abi::CmOpenChannelRequest{}, r, pair[1]) == 0);
        close(pair[1]);
        *mine = pair[0];
        return r.channel;
    }
    uint32_t create(uint64_t uid, uint16_t space = kTcp, uint8_t type = kRc) {
        abi::CmCreateIdReply r;
        REQUIRE(c.call(abi::CmCreateIdRequest{uid, channel, space, type}, r) == 0);
        return r.id;
    }
    uint32_t listen(uint32_t address, uint16_t port, uint16_t space = kTcp, uint8_t type = kRc) {
        const uint32_t id = create(1, space, type);
        REQUIRE(c.call(abi::CmBindRequest{id, ipv4(address, port)}) == 0);
        REQUIRE(c.call(abi::CmListenRequest{id, 10}) == 0);
        return id;
    }
    // Up to a resolved route.
    uint32_t aim(uint32_t address, uint16_t port, uint64_t uid, uint16_t space = kTcp, uint8_t type = kRc) {
        const uint32_t id = create(uid, space, type);
        abi::CmResolveAddressRequest r;
        r.id = id;
        r.destination = ipv4(address, port);
        REQUIRE(c.call(r) == 0);
        REQUIRE(event().event == control::cm_event::kAddressResolved);
        REQUIRE(c.call(abi::CmResolveRouteRequest{id}) == 0);
        REQUIRE(event().event == control::cm_event::kRouteResolved);
        return id;
    }
    abi::CmConnParam param(const char* data) const {
        abi::CmConnParam p;
        p.qp_num = qpn;
        p.responder_resources = 3;
        p.initiator_depth = 5;
        p.retry_count = 6;
        p.rnr_retry_count = 4;
        p.valid = 1;
        p.private_data_len = static_cast<uint8_t>(std::strlen(data));
        std::memcpy(p.private_data, data, p.private_data_len);
        return p;
    }
    int connect(uint32_t id, const char* data = "hello") {
        abi::CmConnectRequest r;
        r.id = id;
        r.param = param(data);
        return c.call(r);
    }
    int accept(uint32_t id, uint64_t uid, const char* data = "welcome") {
        abi::CmAcceptRequest r;
        r.id = id;
        r.uid = uid;
        r.param = param(data);
        return c.call(r);
    }
    int confirm(uint32_t id) {
        abi::CmAcceptRequest r;
        r.id = id;
        return c.call(r);
    }
    // Without a record that tells of it.
    int fetch(abi::CmGetEventReply& r) { return c.call(abi::CmGetEventRequest{channel}, r); }
    int resolve(uint32_t id, uint32_t address) {
        abi::CmResolveAddressRequest r;
        r.id = id;
        r.destination = ipv4(address, 7000);
        return c.call(r);
    }
    // The next event; event 0xffffffff: none came in `wait_ms`.
    abi::CmGetEventReply event(int wait_ms = 60'000) {
        abi::CmGetEventReply r;
        for (;;) {
            pollfd p{fd, POLLIN, 0};
            char record;
            r.event = 0xffffffff;
            if (poll(&p, 1, wait_ms) != 1 || recv(fd, &record, 1, 0) != 1) return r;
            const int rc = c.call(abi::CmGetEventRequest{channel}, r);
            if (rc == 0) return r;
            REQUIRE(rc == EAGAIN);
        }
    }
    abi::QpAttrRecord attr(uint32_t id, uint32_t state) {
        abi::CmInitQpAttrReply r;
        REQUIRE(c.call(abi::CmInitQpAttrRequest{id, state}, r) == 0);
        return r.attr;
    }
    ControlClient c;
    int fd = -1;
    uint32_t channel = 0, qpn = 0;
};

inline std::string text(const abi::CmConnParam& p) {
    return {reinterpret_cast<const char*>(p.private_data)};  // padded with zeros
}

struct Pair {
    Pair(ControlWorld& world, Party& server, Party& client, uint32_t address = kFirstIp) {
        (void)world;
        listener = server.listen(address, 7000);
        active = client.aim(address, 7000, 77);
        REQUIRE(client.connect(active) == 0);
        request = server.event();
        REQUIRE(request.event == control::cm_event::kConnectRequest);
        passive = request.id;
        REQUIRE(server.accept(passive, 88) == 0);
        response = client.event();
        REQUIRE(response.event == control::cm_event::kConnectResponse);
        REQUIRE(client.confirm(active) == 0);
        REQUIRE(server.event().event == control::cm_event::kEstablished);
    }
    uint32_t listener = 0, active = 0, passive = 0;
    abi::CmGetEventReply request, response;
};

}  // namespace rocemu::test
