// SPDX-License-Identifier: BSD-3-Clause
// Ports: who may bind what, which listener a request goes to. Rules of bind(2); annex A11 of the IBTA specification.
#include <catch2/catch.hpp>
#include <set>

#include "cm/bindings.h"
#include "cm/manager.h"

using namespace rocemu;
using namespace rocemu::cm;

namespace {

const wire::Gid kAny4 = wire::Gid::from_ipv4(0);
const wire::Gid kAny6{};
const wire::Gid kOne = *wire::parse_gid("10.0.0.1");
const wire::Gid kTwo = *wire::parse_gid("10.0.0.2");
const wire::Gid kSix = *wire::parse_gid("fd00::1");

BindParams at(const wire::Gid& address, uint16_t port = 5000) {
    return {.address = address, .port = port};
}

}  // namespace

TEST_CASE("which bindings exclude each other") {
    const Config config;
    Bindings bindings(config);
    const auto ok = [&](const BindParams& p) {
        const auto b = bindings.bind(1, p);
        if (b.ok()) bindings.unbind(*b.value);
        return b.ok();
    };
    auto* first = bindings.bind(1, at(kOne)).value;
    REQUIRE(first != nullptr);
    CHECK_FALSE(ok(at(kOne)));
    CHECK_FALSE(ok(at(kAny4)));
    CHECK_FALSE(ok(at(kAny6)));
    CHECK(ok(at(kTwo)));
    CHECK(ok(at(kSix)));
    CHECK(ok(at(kOne, 5001)));
    CHECK(ok({.port_space = PortSpace::Udp, .address = kOne, .port = 5000}));
    CHECK(ok({.address = kAny6, .port = 5000, .v6_only = true}));
    bindings.unbind(*first);
    CHECK(ok(at(kOne)));

    auto* dual = bindings.bind(1, at(kAny6)).value;
    CHECK_FALSE(ok(at(kOne)));
    CHECK_FALSE(ok(at(kSix)));
    bindings.unbind(*dual);

    auto* shared = bindings.bind(1, {.address = kOne, .port = 5000, .reuse_address = true}).value;
    CHECK_FALSE(ok(at(kOne)));
    const auto second = bindings.bind(1, {.address = kOne, .port = 5000, .reuse_address = true});
    REQUIRE(second.ok());
    CHECK(bindings.listen(*shared, 1) == Status::Ok);
    CHECK(bindings.listen(*second.value, 1) == Status::AddressInUse);
    CHECK_FALSE(ok({.address = kOne, .port = 5000, .reuse_address = true}));
}

TEST_CASE("the listener of a request") {
    const Config config;
    Bindings bindings(config);
    const auto listener = [&](BindParams p) {
        p.reuse_address = true;
        auto* b = bindings.bind(1, p).value;
        REQUIRE(b != nullptr);
        return b;
    };
    auto* exact = listener(at(kOne));
    const IpService service{PortSpace::Tcp, 5000};
    CHECK(bindings.find_listener(service, kOne) == nullptr);  // bound, but does not listen
    REQUIRE(bindings.listen(*exact, 1) == Status::Ok);
    CHECK(bindings.find_listener(service, kOne) == exact);
    CHECK(bindings.find_listener(service, kTwo) == nullptr);
    CHECK(bindings.find_listener({PortSpace::Udp, 5000}, kOne) == nullptr);
    CHECK(bindings.find_listener({PortSpace::Tcp, 5001}, kOne) == nullptr);
    bindings.unbind(*exact);

    auto* any4 = listener(at(kAny4));
    REQUIRE(bindings.listen(*any4, 1) == Status::Ok);
    CHECK(bindings.find_listener(service, kTwo) == any4);
    CHECK(bindings.find_listener(service, kSix) == nullptr);
    auto* only6 = bindings.bind(1, {.address = kAny6, .port = 5000, .v6_only = true}).value;
    REQUIRE(only6 != nullptr);
    REQUIRE(bindings.listen(*only6, 1) == Status::Ok);
    CHECK(bindings.find_listener(service, kSix) == only6);
    CHECK(bindings.find_listener(service, kTwo) == any4);
    bindings.unbind(*any4);
    CHECK(bindings.find_listener(service, kTwo) == nullptr);
    bindings.unbind(*only6);

    auto* dual = listener(at(kAny6));
    REQUIRE(bindings.listen(*dual, 1) == Status::Ok);
    CHECK(bindings.find_listener(service, kTwo) == dual);
    CHECK(bindings.find_listener(service, kSix) == dual);
}

TEST_CASE("ephemeral ports: in range, all different, used up, given back") {
    Config config;
    config.first_ephemeral_port = 40000;
    config.last_ephemeral_port = 40099;
    Bindings bindings(config);
    std::set<uint16_t> ports;
    std::vector<Binding*> all;
    for (int i = 0; i < 100; ++i) {
        const auto b = bindings.bind(1, {.address = kAny4});
        REQUIRE(b.ok());
        ports.insert(b.value->params.port);
        all.push_back(b.value);
    }
    CHECK(ports.size() == 100);
    CHECK(*ports.begin() == 40000);
    CHECK(*ports.rbegin() == 40099);
    CHECK(bindings.bind(1, {.address = kAny4}).status == Status::AddressInUse);
    bindings.unbind(*all[42]);
    CHECK(bindings.bind(1, {.address = kAny4}).ok());
}

TEST_CASE("ports of a manager: privileges, quota, capacity, and each owner its own") {
    Config config;
    config.max_bindings = 4;
    CmManager cm(config);
    CHECK(cm.bind(1, at(kOne)).status == Status::NotFound);
    REQUIRE(cm.add_owner(1, {.max_bindings = 2}) == Status::Ok);
    CHECK(cm.add_owner(1, {}) == Status::InvalidArgument);
    REQUIRE(cm.add_owner(2, {.max_bindings = 100, .privileged_ports = true}) == Status::Ok);
    CHECK(cm.bind(1, at(kOne, 1023)).status == Status::PermissionDenied);
    CHECK(cm.bind(2, at(kOne, 1023)).ok());
    const auto mine = cm.bind(1, at(kOne));
    REQUIRE(mine.ok());
    CHECK(mine.value.port == 5000);
    CHECK(cm.bind(2, at(kOne)).status == Status::AddressInUse);
    CHECK(cm.listen(2, mine.value.id, 5) == Status::NotFound);
    CHECK(cm.unbind({}, 2, mine.value.id) == Status::NotFound);
    REQUIRE(cm.bind(1, at(kTwo)).ok());
    CHECK(cm.bind(1, at(kSix)).status == Status::QuotaExceeded);
    CHECK(cm.bind(2, at(kSix)).ok());
    CHECK(cm.bind(2, at(kSix, 5001)).status == Status::NoResources);
    CHECK(cm.unbind({}, 1, mine.value.id) == Status::Ok);
    CHECK(cm.unbind({}, 1, mine.value.id) == Status::NotFound);
    CHECK(cm.bind(1, at(kOne)).value.id != mine.value.id);
    cm.remove_owner({}, 1);
    CHECK(cm.bind(2, at(kTwo)).ok());
}
