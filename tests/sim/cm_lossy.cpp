// SPDX-License-Identifier: BSD-3-Clause
// Two connection managers over a link that loses, duplicates and reorders: whatever the link does, each attempt ends
// on each side in "established" or in a defined error, each release ends in "disconnected", and nothing is left over.
// Read IBTA volume 1, 12.9.
#include <catch2/catch.hpp>
#include <set>

#include "sim/cm_pair.h"

using namespace rocemu;
using namespace rocemu::cm;
using test::CmPair;

namespace {

constexpr auto kA = CmPair::A;
constexpr auto kB = CmPair::B;
constexpr auto kOwner = CmPair::kOwner;

// Consumers that behave: confirm what is answered, accept what is asked, release what the peer releases.
struct Consumers {
    explicit Consumers(CmPair& pair) : pair(pair) {
        pair.on_event = [this](CmPair::Side side, const Event& e) { on_event(side, e); };
    }
    void on_event(CmPair::Side side, const Event& e) {
        CmManager& cm = pair.cm(side);
        switch (e.kind) {
            case EventKind::ConnectRequest:
                REQUIRE(cm.request_fetched(kOwner, e.id) == Status::Ok);
                REQUIRE(requests.insert(e.id).second);
                if (reject_every != 0 && ++asked % reject_every == 0) {
                    REQUIRE(cm.reject(pair.now, kOwner, e.id, {}) == Status::Ok);
                    return end(side, e.id, "refused");
                }
                REQUIRE(cm.accept(pair.now, kOwner, e.id, {.local_qpn = 0x800 + ++qpn, .starting_psn = 5}) ==
                        Status::Ok);
                return;
            case EventKind::ConnectResponse:
                REQUIRE(cm.confirm(kOwner, e.id) == Status::Ok);
                open[side].insert(e.id);
                return;
            case EventKind::Established:
                open[side].insert(e.id);
                return;
            case EventKind::Disconnected:
                // As librdmacm's consumers do: answer the DREQ, or nothing to do after our own.
                cm.disconnect(pair.now, kOwner, e.id);
                return end(side, e.id, "disconnected");
            case EventKind::Rejected:
                return end(side, e.id, "rejected");
            case EventKind::Unreachable:
                return end(side, e.id, "unreachable");
            case EventKind::TimewaitExit:
                return;
            default:
                FAIL("event that nobody asked for");
        }
    }
    void end(CmPair::Side side, CmId id, const char* how) {
        open[side].erase(id);
        ended[side][id] = how;
    }

    CmPair& pair;
    int reject_every = 0, asked = 0;
    uint32_t qpn = 0;
    std::set<CmId> open[2], requests;
    std::map<CmId, std::string> ended[2];
};

void destroy_all(CmPair& pair) {
    pair.on_event = nullptr;
    for (const auto side : {kA, kB}) pair.cm(side).remove_owner(pair.now, kOwner);
    pair.run_to_end();
    for (const auto side : {kA, kB}) {
        CHECK(pair.cm(side).connections() == 0);
        CHECK(pair.cm(side).next_deadline() == kNever);
    }
}

}  // namespace

TEST_CASE("connections over a bad link end in a defined state on both sides") {
    const auto seed = GENERATE(range(1, 61));
    const double badness = (seed % 4) * 0.1;  // 0, 10, 20, 30 %
    INFO("seed " << seed);
    CmPair pair(static_cast<uint64_t>(seed), {.drop = badness, .duplicate = badness, .reorder = badness});
    Consumers consumers(pair);
    consumers.reject_every = seed % 3 == 0 ? 4 : 0;
    pair.listen(kB, 7000);

    constexpr uint32_t kCount = 50;
    std::set<CmId> asked;
    for (uint32_t i = 0; i < kCount; ++i) {
        const auto id = pair.a().connect(pair.now, kOwner, pair.connect_params(kA, 7000, 0x100 + i));
        REQUIRE(id.ok());
        asked.insert(id.value);
        pair.run(kMillisecond);
    }
    // Longer than any series of retries: 16 transmissions of 4.8 s, and as long again for REPs.
    pair.run(300 * kSecond);

    for (const CmId id : asked) CHECK(consumers.open[kA].count(id) + consumers.ended[kA].count(id) == 1);
    for (const CmId id : consumers.requests) CHECK(consumers.open[kB].count(id) + consumers.ended[kB].count(id) == 1);
    CHECK(consumers.open[kA].size() == consumers.open[kB].size());
    if (badness == 0 && consumers.reject_every == 0) CHECK(consumers.open[kA].size() == kCount);
    // 16 transmissions at 30 % loss each way: an attempt that failed would be a fault of ours.
    for (const auto& [id, how] : consumers.ended[kA]) CHECK(how == "rejected");
    // One request of the peer is one request of the consumer, whatever was duplicated.
    CHECK(consumers.requests.size() == kCount);

    // Half of them are released by A, half by B, some by both at once.
    std::map<uint32_t, CmId> at_b;
    for (const CmId id : consumers.open[kB]) at_b[pair.b().info(kOwner, id).value.remote_qpn] = id;
    int n = 0;
    for (const CmId id : std::set<CmId>(consumers.open[kA])) {
        const CmId other = at_b.at(pair.a().info(kOwner, id).value.local_qpn);
        ++n;
        if (n % 2 == 0 || n % 5 == 0) CHECK(pair.a().disconnect(pair.now, kOwner, id) == Status::Ok);
        if (n % 2 == 1 || n % 5 == 0) CHECK(pair.b().disconnect(pair.now, kOwner, other) == Status::Ok);
    }
    pair.run(200 * kSecond);
    for (const auto side : {kA, kB}) {
        CHECK(consumers.open[side].empty());
        CHECK(pair.count(side, EventKind::TimewaitExit) >= n);
    }
    destroy_all(pair);
}

TEST_CASE("a peer that is not there: unreachable after 16 transmissions") {
    CmPair pair(1, {.drop = 1});
    int sent = 0;
    pair.on_send = [&](CmPair::Side, const TxMad& tx) { return ++sent, attribute_of(tx.mad) != Attribute::Drep; };
    const Instant start = pair.now;
    REQUIRE(pair.a().connect(pair.now, kOwner, pair.connect_params(kA, 7000, 1)).ok());
    while (pair.events[kA].empty()) REQUIRE(pair.step());
    CHECK(pair.last(kA).kind == EventKind::Unreachable);
    CHECK(pair.last(kA).status == kStatusTimedOut);
    CHECK(sent == 16 + 1);  // and a REJ with reason "timeout"
    // 4.096 us * 2^20 for the peer plus twice 4.096 us * 2^16 for the way.
    const Duration once = (Duration{4096} << 20) + 2 * (Duration{4096} << 16);
    CHECK(pair.now - start == 16 * once);
    destroy_all(pair);
}

TEST_CASE("the link dies in the middle of the life of a connection") {
    const auto seed = GENERATE(range(1, 41));
    CmPair pair(static_cast<uint64_t>(seed));
    Consumers consumers(pair);
    pair.listen(kB, 7000);
    int until_death = seed % 8;
    pair.on_send = [&](CmPair::Side, const TxMad&) { return until_death-- > 0; };
    const auto id = pair.a().connect(pair.now, kOwner, pair.connect_params(kA, 7000, 1));
    REQUIRE(id.ok());
    pair.run(300 * kSecond);
    for (const CmId open : std::set<CmId>(consumers.open[kA])) pair.a().disconnect(pair.now, kOwner, open);
    pair.run(300 * kSecond);
    CHECK(consumers.open[kA].empty());
    CHECK(consumers.ended[kA].size() == 1);
    for (const CmId request : consumers.requests)
        CHECK(consumers.ended[kB].count(request) + consumers.open[kB].count(request) == 1);
    destroy_all(pair);
}

TEST_CASE("SIDR over a bad link") {
    const auto seed = GENERATE(range(1, 31));
    CmPair pair(static_cast<uint64_t>(seed), {.drop = 0.3, .duplicate = 0.3, .reorder = 0.3});
    pair.listen(kB, 7000, 1000, PortSpace::Udp);
    pair.on_event = [&](CmPair::Side side, const Event& e) {
        if (side == kB && e.kind == EventKind::SidrRequest) {
            CHECK(pair.b().request_fetched(kOwner, e.id) == Status::Ok);
            CHECK(pair.b().sidr_reply(pair.now, kOwner, e.id, {.qpn = 0x77, .qkey = 0x1234567}) == Status::Ok);
        }
    };
    constexpr int kCount = 20;
    for (int i = 0; i < kCount; ++i) {
        SidrRequestParams p;
        p.target = pair.connect_params(kA, 7000, 1).target;
        p.target.port_space = PortSpace::Udp;
        p.path = pair.connect_params(kA, 7000, 1).path;
        REQUIRE(pair.a().sidr_request(pair.now, kOwner, p).ok());
    }
    pair.run(200 * kSecond);
    CHECK(pair.count(kA, EventKind::SidrResult) == kCount);
    for (const Event& e : pair.events[kA]) {
        CHECK(e.status == 0);
        CHECK(e.info.remote_qpn == 0x77);
        CHECK(e.info.qkey == 0x1234567);
    }
    CHECK(pair.count(kB, EventKind::SidrRequest) == kCount);
    destroy_all(pair);
}

TEST_CASE("5000 rounds of connect and disconnect leave nothing, 1000 connections at once through one listener") {
    CmPair pair(3, {}, {.max_connections = 2048, .transmit_capacity = 4096});
    Consumers consumers(pair);
    pair.listen(kB, 7000);
    for (uint32_t round = 0; round < 5000; ++round) {
        const auto id = pair.a().connect(pair.now, kOwner, pair.connect_params(kA, 7000, round % 1000));
        REQUIRE(id.ok());
        pair.run(kMillisecond);
        REQUIRE(consumers.open[kA].count(id.value) == 1);
        const CmId other = *consumers.open[kB].begin();
        switch (round % 3) {
            case 0:  // release, then destroy
                REQUIRE(pair.a().disconnect(pair.now, kOwner, id.value) == Status::Ok);
                pair.run(kMillisecond);
                break;
            default:  // the program was killed
                break;
        }
        REQUIRE(pair.a().destroy(pair.now, kOwner, id.value) == Status::Ok);
        consumers.open[kA].erase(id.value);
        pair.run(kMillisecond);
        REQUIRE(consumers.open[kB].empty());
        REQUIRE(pair.b().destroy(pair.now, kOwner, other) == Status::Ok);
    }
    pair.run(10 * kSecond);
    CHECK(pair.a().connections() == 0);
    CHECK(pair.b().connections() == 0);

    for (uint32_t i = 0; i < 1000; ++i)
        REQUIRE(pair.a().connect(pair.now, kOwner, pair.connect_params(kA, 7000, i)).ok());
    pair.run(kSecond);
    CHECK(consumers.open[kA].size() == 1000);
    CHECK(consumers.open[kB].size() == 1000);
    destroy_all(pair);
}
