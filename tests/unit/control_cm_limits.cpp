// SPDX-License-Identifier: BSD-3-Clause
// What one program may ask of the rdma_cm device: addresses that nobody has, a great many ids, events that it does not
// fetch. Turned by the test: searches fail in virtual time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>

#include "control/cm_service.h"
#include "support/cm_party.h"

using namespace rocemu;
using namespace rocemu::test;
using namespace rocemu::control;

namespace {

// Time for searches of neighbours passes until they have failed.
void searches_fail(ControlWorld& world) {
    auto& resolver = world.control().resolver;
    Instant now = EventLoop::now();
    for (uint32_t i = 0; i <= net::NeighbourTable::kTries; ++i, now = now + net::NeighbourTable::kRetry) {
        resolver.tick(now);
        world.turn();
    }
}
void many_ids(config::Config& c) {
    c.limits.max_cm_ids = 5000;
}

}  // namespace

TEST_CASE("an address that nobody has is one event, until it is fetched", "[control][cm]") {
    ControlWorld world({}, ControlWorld::Drive::Turns);
    Party p(world, 0, [&] { world.turn(); });
    const uint32_t id = p.create(1);
    REQUIRE(p.resolve(id, kFirstIp + 0x77) == 0);
    CHECK(p.resolve(id, kFirstIp + 0x77) == EINVAL);
    searches_fail(world);
    for (int i = 0; i < 1000; ++i) REQUIRE(p.resolve(id, kFirstIp + 0x77) == EBUSY);
    abi::CmGetEventReply e;
    REQUIRE(p.fetch(e) == 0);
    CHECK((e.event == cm_event::kAddressError && e.status == -ETIMEDOUT));
    CHECK(p.fetch(e) == EAGAIN);
    REQUIRE(p.resolve(id, kFirstIp + 0x77) == 0);
    REQUIRE(p.fetch(e) == 0);
    CHECK((e.event == cm_event::kAddressError && e.status == -EHOSTUNREACH));
    CHECK(p.fetch(e) == EAGAIN);
}

TEST_CASE("a session's searches for neighbours leave room for others', and all of them come to an end", "[control][cm]") {
    constexpr uint32_t kIds = 1000, kDead = 1100, kLive = kFirstIp + 0x50, kAnother = kFirstIp + 0x51;
    ControlWorld world(many_ids, ControlWorld::Drive::Turns);
    const auto turn = [&] { world.turn(); };
    Party greedy(world, 0, turn), other(world, 0, turn);
    auto& resolver = world.control().resolver;
    const auto learn = [&](uint32_t address) {
        resolver.learn(0, wire::Gid::from_ipv4(address), {2, 0, 0, 0, 0, 9}, EventLoop::now());
    };
    abi::CmGetEventReply e;
    for (uint32_t i = 0; i < kDead; ++i) REQUIRE(greedy.resolve(greedy.create(i + 1), 0x0acb0400 + i) == 0);
    REQUIRE(other.resolve(other.create(1), kAnother) == 0);
    CHECK(other.fetch(e) == EAGAIN);
    learn(kAnother);
    REQUIRE(other.fetch(e) == 0);
    CHECK(e.event == cm_event::kAddressResolved);
    // An id that is gone waits no longer.
    CHECK(greedy.fetch(e) == EAGAIN);
    const uint32_t gone = greedy.create(9999);
    REQUIRE(greedy.resolve(gone, 0x0acb0900) == 0);
    REQUIRE(greedy.c.call(abi::CmDestroyIdRequest{gone}) == 0);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < kDead / CmService::kMaxSearches + 1; ++i) {
        searches_fail(world);
        while (greedy.fetch(e) == 0) failed += e.event == cm_event::kAddressError && e.status == -ETIMEDOUT;
    }
    CHECK(failed == kDead);
    // As many as like for one address, none of them in a queue.
    for (uint32_t i = 0; i < kIds; ++i) REQUIRE(greedy.resolve(greedy.create(i + 1), kLive) == 0);
    CHECK(resolver.waiting() == kIds);
    learn(kLive);
    for (uint32_t i = 0; i < kIds; ++i) {
        REQUIRE(greedy.fetch(e) == 0);
        REQUIRE(e.event == cm_event::kAddressResolved);
    }
    CHECK(greedy.fetch(e) == EAGAIN);
}

namespace {

// How long this thread is busy with the end of a session of so many ids, each with a membership, with events of both.
double cost_of_end(uint32_t ids) {
    ControlWorld world(many_ids, ControlWorld::Drive::Turns);
    Party p(world, 0, [&] { world.turn(); });
    Session& session = *world.control().sessions.begin()->second;
    CmService& cm = *world.control().cm;
    for (uint32_t i = 0; i < ids; ++i) {
        uint32_t id = 0;
        REQUIRE(cm.create(session, p.channel, &id) != nullptr);
        cm.deliver(session, id, cm_event::kAddressError, 0);
        CmMembership membership;
        membership.id = id;
        membership.serial = cm.next_serial();
        const uint32_t number = *session.cm.membership_ids.take();
        session.cm.memberships.emplace(number, membership);
        CmPendingEvent event;
        event.number = number;
        event.serial = membership.serial;
        event.membership = true;
        event.record.id = id;
        cm.deliver(session, session.cm.objects.at(id), event);
    }
    const auto busy = [] {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
    };
    const double before = busy();
    cm.forget(session);
    const double after = busy();
    CHECK((session.cm.objects.empty() && session.cm.memberships.empty() && session.cm.channels.empty()));
    return after - before;
}

}  // namespace

TEST_CASE("the end of a session takes time for what it has, not for the square of it", "[control][cm]") {
    const double few = std::min({cost_of_end(256), cost_of_end(256), cost_of_end(256)});
    const double many = std::min(cost_of_end(4096), cost_of_end(4096));
    INFO("256 ids: " << few * 1e6 << " us, 4096: " << many * 1e6 << " us");
    CHECK(many < 100 * few);  // 16 times as many; the square would be 256
}
