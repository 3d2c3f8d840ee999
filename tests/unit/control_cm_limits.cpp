// SPDX-License-Identifier: BSD-3-Clause
// What one program may ask of the rdma_cm device: a great many ids, events that it does not fetch. Turned by the test.
#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>

#include "control/cm_service.h"
#include "support/cm_party.h"

using namespace rocemu;
using namespace rocemu::test;
using namespace rocemu::control;

namespace {

void many_ids(config::Config& c) {
    c.limits.max_cm_ids = 5000;
}

}  // namespace

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
