// SPDX-License-Identifier: BSD-3-Clause
// Parts of control without a server: number allocators, the arena, pcapng blocks, rtnetlink, the event loop.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "control/device_attributes.h"
#include "control/event_loop.h"
#include "control/group_memberships.h"
#include "control/interface_info.h"
#include "control/link_speed.h"
#include "control/key_allocator.h"
#include "control/mapped_file.h"
#include "control/pcapng.h"
#include "control/qpn_allocator.h"
#include "control/queue_arena.h"
#include "net/eui64.h"

using namespace rocemu;
using namespace rocemu::control;

TEST_CASE("QPNs: by bucket to the shard with the least load, reused late") {
    QpnAllocator a(3);
    std::map<uint32_t, int> load;
    std::set<uint32_t> seen;
    for (int i = 0; i < 3000; ++i) {
        const auto qpn = a.take(a.least_loaded());
        REQUIRE(qpn);
        CHECK(*qpn > 0x10);
        CHECK(*qpn < 0xffffff);
        CHECK(seen.insert(*qpn).second);
        CHECK(a.shard_of(*qpn) == (*qpn & 0xff) % 3);
        ++load[a.shard_of(*qpn)];
    }
    for (uint32_t s = 0; s < 3; ++s) CHECK(load[s] == 1000);
    const uint32_t freed = *seen.begin();
    a.give_back(freed);
    const auto next = a.take(a.least_loaded());
    REQUIRE(next);
    CHECK(a.shard_of(*next) == a.shard_of(freed));
    CHECK(*next != freed);
}

TEST_CASE("keys: the variant changes when an index comes back") {
    KeyAllocator a;
    std::set<uint32_t> live;
    std::vector<uint32_t> order;
    for (int i = 0; i < 5000; ++i) {
        const auto key = a.take();
        REQUIRE(key);
        REQUIRE(*key != 0);
        REQUIRE(live.insert(*key).second);
        for (const uint32_t other : order) REQUIRE((other != *key));
        order.push_back(*key);
        if (order.size() > 10) {
            a.give_back(order.front());
            order.erase(order.begin());
        }
    }
}

static bool all_are(const QueueBlock& b, uint8_t mark) {
    return std::all_of(b.address, b.address + b.bytes, [&](std::byte x) { return x == std::byte{mark}; });
}

TEST_CASE("arena: blocks never overlap, come back zero, holes join") {
    QueueArena arena(8u << 20);
    std::mt19937 random(1);
    std::vector<std::pair<QueueBlock, uint8_t>> live;
    for (int i = 0; i < 4000; ++i) {
        if (live.size() < 40 && random() % 3) {
            QueueBlock b;
            const uint64_t bytes = 1 + random() % 30000;
            REQUIRE(arena.allocate(bytes, b) == 0);
            REQUIRE(b.offset % QueueArena::kAlign == 0);
            REQUIRE(all_are(b, 0));
            const auto mark = static_cast<uint8_t>(1 + random() % 255);
            std::memset(b.address, mark, b.bytes);
            live.emplace_back(b, mark);
        } else if (!live.empty()) {
            const size_t at = random() % live.size();
            REQUIRE(all_are(live[at].first, live[at].second));
            arena.free(live[at].first);
            live.erase(live.begin() + static_cast<long>(at));
        }
    }
    for (const auto& [b, mark] : live) arena.free(b);
    CHECK(arena.used() == 0);
    const uint64_t mapped = arena.mapped();
    QueueBlock whole;
    CHECK(arena.allocate(1u << 20, whole) == 0);  // the holes of a region joined again
    CHECK(arena.mapped() == mapped);
    CHECK(arena.allocate(9u << 20, whole) == ENOMEM);
    CHECK(arena.allocate(0, whole) == ENOMEM);
}

TEST_CASE("arena: a region that is retired gives no more, goes with its last block, and its number is used again") {
    QueueArena arena(8u << 20);
    std::vector<UniqueFd> fds;
    QueueBlock first, second, elsewhere, again;
    REQUIRE(arena.allocate(1000, first) == 0);
    REQUIRE(arena.allocate(1000, second) == 0);
    REQUIRE(first.region == second.region);
    arena.retire(first);
    arena.free(first);
    REQUIRE(arena.allocate(1000, elsewhere) == 0);
    CHECK(elsewhere.region != first.region);
    CHECK(all_are(second, 0));  // still there
    const uint64_t mapped = arena.mapped();
    arena.free(second);
    CHECK(arena.mapped() < mapped);
    CHECK(arena.introduce(second, fds) == 0);
    REQUIRE(arena.allocate(3u << 20, again) == 0);
    CHECK(again.region == first.region);
    CHECK(arena.introduce(again, fds) != 0);
    arena.free(again);
    arena.free(elsewhere);
    CHECK(arena.used() == 0);
}

TEST_CASE("arena: the descriptor of a region goes with the first reply that tells of it, whichever that is") {
    QueueArena arena(8u << 20);
    std::vector<UniqueFd> fds;
    QueueBlock first, second;
    REQUIRE(arena.allocate(1000, first) == 0);
    REQUIRE(arena.allocate(1000, second) == 0);
    REQUIRE(first.region == second.region);
    CHECK(arena.introduce(second, fds) == arena.mapped());
    REQUIRE((fds.size() == 1 && fds[0]));
    CHECK(arena.introduce(first, fds) == 0);
    CHECK(arena.introduce(second, fds) == 0);
    CHECK(fds.size() == 1);
}

TEST_CASE("pcapng: blocks with equal lengths before and behind, direction and comment") {
    std::vector<std::byte> out;
    PcapngWriter w(out);
    w.begin("rocemu0", 96);
    const std::vector<std::byte> frame(61, std::byte{7});
    w.packet(0x123456789abcdef0, PacketDirection::Inbound, frame, 1000, "dropped: x");
    w.packet(1, PacketDirection::Outbound, frame, 61, "");
    std::vector<uint32_t> types;
    for (size_t at = 0; at < out.size();) {
        uint32_t type, length, behind;
        std::memcpy(&type, &out[at], 4);
        std::memcpy(&length, &out[at + 4], 4);
        REQUIRE(length % 4 == 0);
        REQUIRE(at + length <= out.size());
        std::memcpy(&behind, &out[at + length - 4], 4);
        REQUIRE(behind == length);
        types.push_back(type);
        at += length;
    }
    CHECK(types == std::vector<uint32_t>{0x0A0D0D0A, 1, 6, 6});
}

TEST_CASE("rtnetlink knows the loopback interface, and no other one of that name") {
    const auto lo = read_interface("lo");
    REQUIRE(lo);
    CHECK(lo->index == 1);
    CHECK(lo->mtu >= 1500);
    CHECK_FALSE(read_interface("no-such-if"));
    CHECK(lo->speed_mbps == 0);  // it has none
    CHECK(link_speed("no-such-if") == 0);
    InterfaceInfo info;
    const std::byte junk[40] = {std::byte{200}};
    CHECK(take_messages(junk, info));
}

TEST_CASE("event loop: handlers may remove themselves, timers repeat, deferred work runs once") {
    EventLoop loop;
    const UniqueFd fd(eventfd(1, EFD_CLOEXEC));
    int events = 0, ticks = 0, deferred = 0;
    REQUIRE(loop.add(fd.get(), EPOLLIN, [&](uint32_t) {
        ++events;
        loop.remove(fd.get());
        loop.defer([&] { ++deferred; });
    }));
    loop.every(kMillisecond, [&] { ++ticks; });
    for (int i = 0; i < 20; ++i) loop.turn(2 * kMillisecond);
    CHECK(events == 1);
    CHECK(deferred == 1);
    CHECK(ticks > 2);
}

TEST_CASE("groups of a port without a kernel: told twice at once, then each minute, and twice when they are left") {
    const auto group = wire::Gid::from_ipv4(0xef010203), other = wire::Gid::from_ipv4(0xef010204);
    GroupMemberships groups;
    Instant now{5 * kSecond};
    CHECK(groups.due_reports(now).empty());
    REQUIRE(groups.join(group, 1) == 0);
    REQUIRE(groups.join(group, 1) == 0);
    for (int i = 0; i < 2; ++i) {
        const auto due = groups.due_reports(now);
        REQUIRE(due.size() == 1);
        CHECK(due[0].group == group);
        CHECK(due[0].change == net::GroupChange::Joined);
        CHECK(groups.due_reports(now).empty());
        now = now + kSecond;
    }
    CHECK(groups.due_reports(now).empty());
    now = now + 60 * kSecond;
    const auto still = groups.due_reports(now);
    REQUIRE(still.size() == 1);
    CHECK(still[0].change == net::GroupChange::Still);
    groups.leave(group, 1);
    CHECK(groups.due_reports(now).empty());  // one user is left
    groups.leave(group, 1);
    for (int i = 0; i < 2; ++i) {
        const auto left = groups.due_reports(now);
        REQUIRE(left.size() == 1);
        CHECK((left[0].group == group && left[0].change == net::GroupChange::Left));
        CHECK(groups.due_reports(now).empty());
        now = now + kSecond;
    }
    CHECK(groups.due_reports(now).empty());
    // Joined again before the second time: it is not left any more.
    REQUIRE(groups.join(group, 1) == 0);
    REQUIRE(groups.due_reports(now).size() == 1);
    groups.leave(group, 1);
    REQUIRE(groups.due_reports(now).size() == 1);
    REQUIRE(groups.join(group, 1) == 0);
    now = now + kSecond;
    const auto again = groups.due_reports(now);
    REQUIRE(again.size() == 1);
    CHECK(again[0].change == net::GroupChange::Joined);
    groups.leave(group, 1);
    for (int i = 0; i < 2; ++i, now = now + kSecond) CHECK(groups.due_reports(now).size() == 1);
    // Joined and left before anything was told of it.
    REQUIRE(groups.join(other, 1) == 0);
    groups.leave(other, 1);
    CHECK(groups.due_reports(now).empty());
}

TEST_CASE("groups: a session has a share of those of a device, and what it has left is free") {
    const auto group = [](uint32_t i) { return wire::Gid::from_ipv4(0xef000000 + i); };
    GroupMemberships groups;
    for (uint32_t i = 0; i < kMaxGroupsPerSession; ++i) REQUIRE(groups.join(group(i), 1) == 0);
    CHECK(groups.join(group(kMaxGroupsPerSession), 1) == ENOMEM);
    CHECK(groups.join(group(0), 1) == 0);  // another QP in the same one
    CHECK(groups.join(group(kMaxGroupsPerSession), 2) == 0);
    CHECK(groups.join(group(kMaxGroupsPerSession), 1) == ENOMEM);
    groups.leave(group(0), 1);
    CHECK(groups.join(group(kMaxGroupsPerSession), 1) == ENOMEM);
    groups.leave(group(0), 1);
    CHECK(groups.join(group(kMaxGroupsPerSession), 1) == 0);
}

TEST_CASE("groups: the port's interface decides, those of VLANs join if they can") {
    constexpr uint32_t kLoopback = 1, kNone = 0x7ffffff0;
    const auto group = wire::Gid::from_ipv4(0xef010203);
    GroupMemberships groups;
    groups.use({kNone});
    CHECK(groups.join(group, 1) == ENODEV);
    groups.use({kLoopback, kNone});
    CHECK(groups.join(group, 1) == 0);
    groups.use({kLoopback});
    groups.use({kLoopback, kNone});
    CHECK(groups.due_reports({}).size() == 1);
}

TEST_CASE("a device whose MAC address changes keeps the link-local address that the kernel keeps") {
    const wire::MacAddress first{2, 0, 0, 0, 0, 1}, second{2, 0, 0, 0, 0, 2};
    const auto old_address = net::link_local_gid(first), new_address = net::link_local_gid(second);
    DeviceInit init;
    init.name = "rocemu0";
    init.netdev = "lo";
    std::copy(first.begin(), first.end(), init.info.mac);
    Device device(0, init);
    const auto follow = [&](const wire::MacAddress& mac, const wire::Gid& kernels) {
        InterfaceInfo info;
        info.mac = mac;
        info.mtu = 1500;
        info.running = true;
        info.addresses = {{kernels, 64}, {wire::Gid::from_ipv4(0x0a000001), 120}};
        device.follow(info);
        auto list = device.gids().addresses();
        std::erase_if(list, [](const wire::Gid& gid) { return !gid.is_link_local(); });
        return list;
    };
    CHECK(follow(first, old_address) == std::vector{old_address});
    CHECK(follow(second, old_address) == std::vector{new_address, old_address});
    CHECK(follow(second, new_address) == std::vector{new_address});  // it was taken down and up
    CHECK(follow(second, new_address) == std::vector{new_address});
    CHECK(follow(first, new_address) == std::vector{old_address, new_address});
    CHECK(follow(second, new_address) == std::vector{new_address});
}

TEST_CASE("a file is mapped if it is the one that is meant") {
    const UniqueFd meant(memfd_create("meant", MFD_CLOEXEC)), other(memfd_create("other", MFD_CLOEXEC));
    for (const auto* fd : {&meant, &other}) REQUIRE(ftruncate(fd->get(), 8192) == 0);
    struct stat st {};
    REQUIRE(fstat(meant.get(), &st) == 0);
    const MappedFile::Place place{st.st_dev, st.st_ino, 4096};
    CHECK(MappedFile::create(other.get(), place, 4096, true) == nullptr);
    CHECK(MappedFile::create(meant.get(), place, 4097, true) == nullptr);
    const auto file = MappedFile::create(meant.get(), place, 4096, true);
    REQUIRE(file != nullptr);
    REQUIRE(pwrite(meant.get(), "x", 1, 4096) == 1);
    CHECK(*file->address() == std::byte{'x'});
}
