// SPDX-License-Identifier: BSD-3-Clause
// Objects through the control socket: life of each kind, EBUSY while in use, ownership, limits, and that nothing is
// left of a client that ends, at any moment.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "support/control_status.h"
#include "support/control_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

size_t attached(const ControlWorld& world) {
    size_t n = 0;
    const auto status = status_of(world);  // named: a range-for does not keep the temporary behind operator[]
    for (const auto& s : status["sessions"]) n += s["admin"] == false;
    return n;
}

bool nothing_left(ControlWorld& world) {
    for (int i = 0; i < 500; ++i) {
        if (attached(world) == 0 && world.shard().load().qps == 0) return true;
        usleep(10'000);
    }
    return false;
}

abi::RegMrRequest mr_request(uint32_t pd, uint64_t va, uint64_t length, uint32_t access) {
    abi::RegMrRequest r;
    r.pd = pd;
    r.va = r.iova = va;
    r.length = length;
    r.access = access;
    return r;
}

// Four requests, each of which would make something in the context: a CQ, a QP on the present CQ, a PD, an MR.
void post_creations(ControlClient& c) {
    abi::CreateCqRequest cq;
    cq.context = c.context;
    cq.cqe = 16;
    c.post(cq);
    c.post(c.qp_request());
    c.post(abi::AllocPdRequest{c.context});
    c.post(mr_request(c.pd, 0, 1, 0));
}

}  // namespace

TEST_CASE("a program's objects: made, in use, destroyed") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    CHECK(c.welcome.devices == 2);
    CHECK(c.welcome.payload_path == abi::kPathProcessVm);

    abi::RegMrReply mr;
    REQUIRE(c.call(mr_request(c.pd, 0x1000, 4096, access_flags::kLocalWrite), mr) == 0);
    abi::CreateQpReply qp;
    REQUIRE(c.call(c.qp_request(), qp) == 0);
    CHECK(qp.qpn > 0x10);
    CHECK(qp.max_send_wr == 16);
    CHECK(qp.max_inline_data >= 64);
    CHECK(qp.rq.offset > qp.sq.offset);

    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == EBUSY);
    CHECK(c.call(abi::DestroyCqRequest{c.cq}) == EBUSY);
    abi::QueryQpReply query;
    CHECK(c.call(abi::QueryQpRequest{qp.qpn}, query) == 0);
    CHECK(query.attr.state == static_cast<uint32_t>(QpState::Reset));
    CHECK(c.call(abi::DestroyQpRequest{qp.qpn}) == 0);
    CHECK(c.call(abi::DestroyQpRequest{qp.qpn}) == EINVAL);
    CHECK(c.call(abi::DestroyCqRequest{c.cq}) == 0);
    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == EBUSY);
    CHECK(c.call(abi::DeregMrRequest{mr.key}) == 0);
    CHECK(c.call(abi::DeregMrRequest{mr.key}) == EINVAL);
    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == 0);
    CHECK(c.call(abi::CloseContextRequest{c.context}) == 0);
    CHECK(c.call(abi::AllocPdRequest{c.context}) == EINVAL);
}

TEST_CASE("regions are sealed, of the size that was told, and memory that comes back is zero") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    // Region 0, an eventfd, and the region of the CQ.
    REQUIRE(c.fds.size() == 3);
    for (const int fd : {c.fds[0], c.fds[2]}) {
        CHECK((fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) ==
              (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
        CHECK(ftruncate(fd, 0) != 0);
    }
    auto* map = static_cast<std::byte*>(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, c.fds[2], 0));
    REQUIRE(map != MAP_FAILED);
    abi::CreateCqRequest r;
    r.context = c.context;
    r.cqe = 64;
    abi::CreateCqReply first, second;
    REQUIRE(c.call(r, first) == 0);
    CHECK(first.new_region_bytes == 0);
    std::memset(map + first.queue.offset, 0xff, first.ring_bytes);
    REQUIRE(c.call(abi::DestroyCqRequest{first.cq}) == 0);
    REQUIRE(c.call(r, second) == 0);
    CHECK(second.queue.offset == first.queue.offset);
    CHECK(second.cq != first.cq);
    for (uint64_t i = 0; i < second.ring_bytes; ++i) REQUIRE(map[second.queue.offset + i] == std::byte{0});
    munmap(map, 1 << 20);
}

TEST_CASE("one session's numbers mean nothing in another") {
    ControlWorld world;
    ControlClient a(world.path()), b(world.path());
    a.open();
    b.open();
    REQUIRE((a.status == 0 && b.status == 0));
    CHECK(a.pd != b.pd);
    abi::CreateQpReply qp;
    abi::RegMrReply mr;
    REQUIRE(a.call(a.qp_request(), qp) == 0);
    REQUIRE(a.call(mr_request(a.pd, 0, 1, 0), mr) == 0);
    CHECK(b.call(abi::DestroyQpRequest{qp.qpn}) == EINVAL);
    CHECK(b.call(abi::QueryQpRequest{qp.qpn}) == EINVAL);
    CHECK(b.call(abi::ModifyQpRequest{qp.qpn, 1, {}}) == EINVAL);
    CHECK(b.call(abi::DeregMrRequest{mr.key}) == EINVAL);
    CHECK(b.call(abi::DeallocPdRequest{a.pd}) == EINVAL);
    CHECK(b.call(abi::DestroyCqRequest{a.cq}) == EINVAL);
    CHECK(b.call(mr_request(a.pd, 0, 1, 0)) == EINVAL);
    auto mixed = b.qp_request();
    mixed.send_cq = a.cq;
    CHECK(b.call(mixed) == EINVAL);
    mixed = b.qp_request();
    mixed.pd = a.pd;
    CHECK(b.call(mixed) == EINVAL);
}

TEST_CASE("memory regions: any range that does not wrap") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    using namespace access_flags;
    CHECK(c.call(mr_request(c.pd, 0x5000, 0, kLocalWrite)) == 0);
    CHECK(c.call(mr_request(c.pd, 0, ~uint64_t{0}, kLocalWrite | kRemoteWrite | kRemoteRead)) == 0);
    CHECK(c.call(mr_request(c.pd, 1, ~uint64_t{0}, kLocalWrite)) == EINVAL);
    CHECK(c.call(mr_request(c.pd, ~uint64_t{0} - 10, 12, kLocalWrite)) == EINVAL);
    CHECK(c.call(mr_request(c.pd, 0x5000, 10, kRemoteWrite)) == EINVAL);
    CHECK(c.call(mr_request(c.pd, 0x5000, 10, kRemoteAtomic)) == EINVAL);
    CHECK(c.call(mr_request(c.pd, 0x5000, 10, 1 << 12)) == EINVAL);
    CHECK(c.call(mr_request(c.pd, 0x5000, 10, kLocalWrite | kRelaxedOrdering)) == 0);
    auto shifted = mr_request(c.pd, 0x5000, 12, kLocalWrite);
    shifted.iova = ~uint64_t{0} - 10;
    CHECK(c.call(shifted) == EINVAL);
}

TEST_CASE("limits of a session") {
    ControlWorld world([](config::Config& c) {
        c.limits.max_qp = 2;
        c.limits.max_mr = 1;
        c.limits.max_pd = 1;
        c.limits.max_cq = 1;
        c.limits.max_cqe = 100;
        c.limits.max_qp_wr = 50;
        c.limits.session_memory_mb = 4;
    });
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    CHECK(c.call(abi::AllocPdRequest{c.context}) == ENOMEM);
    CHECK(c.call(mr_request(c.pd, 0, 1, 0)) == 0);
    CHECK(c.call(mr_request(c.pd, 0, 1, 0)) == ENOMEM);
    abi::CreateCqRequest cq;
    cq.context = c.context;
    cq.cqe = 10;
    CHECK(c.call(cq) == ENOMEM);
    cq.cqe = 101;
    CHECK(c.call(cq) == EINVAL);
    auto qp = c.qp_request();
    qp.max_send_wr = 51;
    CHECK(c.call(qp) == EINVAL);
    qp = c.qp_request();
    qp.max_inline_data = 0xffffffff;
    CHECK(c.call(qp) == EINVAL);
    qp = c.qp_request();
    qp.type = 77;
    CHECK(c.call(qp) == EOPNOTSUPP);
    CHECK(c.call(c.qp_request()) == 0);
    CHECK(c.call(c.qp_request()) == 0);
    CHECK(c.call(c.qp_request()) == ENOMEM);
}

TEST_CASE("a session's queue memory has an end") {
    ControlWorld world([](config::Config& c) { c.limits.session_memory_mb = 4; });
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    abi::CreateCqRequest r;
    r.context = c.context;
    r.cqe = 1 << 14;  // a little over 1 MiB
    abi::CreateCqReply reply;
    int made = 0;
    std::vector<uint32_t> list;
    while (c.call(r, reply) == 0 && made < 10) {
        list.push_back(reply.cq);
        ++made;
    }
    CHECK(made == 2);
    for (const uint32_t cq : list) CHECK(c.call(abi::DestroyCqRequest{cq}) == 0);
    CHECK(c.call(r, reply) == 0);
    CHECK(reply.new_region_bytes == 0);
}

TEST_CASE("closing a context takes everything in it along") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    for (int i = 0; i < 20; ++i) REQUIRE(c.call(c.qp_request()) == 0);
    REQUIRE(c.call(mr_request(c.pd, 0, 1, 0)) == 0);
    CHECK(c.call(abi::CloseContextRequest{c.context}) == 0);
    CHECK(world.shard().load().qps == 0);
    CHECK(c.call(abi::DestroyCqRequest{c.cq}) == EINVAL);
    const auto s = status_of(world)["sessions"][0];
    for (const char* kind : {"contexts", "pds", "mrs", "cqs", "qps"}) CHECK(s.value(kind, 99) == 0);
    CHECK(s["queue_memory_bytes"] == 0);
}

// All could be read in one turn of control, while the context waits for the shard.
TEST_CASE("nothing is made in a context that is being closed") {
    ControlWorld world({}, ControlWorld::Drive::Turns);
    ControlClient c(world.path(), [&] { world.turn(); });
    c.open();
    REQUIRE(c.status == 0);
    abi::RegMrReply mr;
    REQUIRE(c.call(c.qp_request()) == 0);
    REQUIRE(c.call(mr_request(c.pd, 0, 1, 0), mr) == 0);
    c.post(abi::CloseContextRequest{c.context});
    post_creations(c);
    abi::ReregMrRequest again;
    again.key = mr.key;
    c.post(again);
    std::byte body[abi::kMaxMessageBytes];
    CHECK(c.receive(body, sizeof body) == 0);
    for (int i = 0; i < 5; ++i) CHECK(c.receive(body, sizeof body) == EINVAL);
    CHECK(world.shard().load().qps == 0);
    CHECK(world.shard().keys().size() == 0);
    // The session goes on, and its end finds nothing.
    CHECK(c.call(c.qp_request()) == EINVAL);
    CHECK(c.call(abi::OpenContextRequest{0}) == 0);
}

TEST_CASE("nothing is left of a client that ends, also in the middle of requests") {
    ControlWorld world;
    for (int round = 0; round < 10; ++round) {
        ControlClient c(world.path());
        c.open();
        REQUIRE(c.status == 0);
        for (int i = 0; i < 30; ++i) {
            c.post(c.qp_request());
            c.post(mr_request(c.pd, 0, 1, 0));
        }
        if (round % 2) {
            c.post(abi::CloseContextRequest{c.context});
            post_creations(c);
        }
        c.disconnect();
    }
    CHECK(nothing_left(world));
}

TEST_CASE("many requests without waiting are answered in full") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    std::thread poster([&] {
        for (int i = 0; i < 2000; ++i) c.post(abi::QueryPortRequest{c.context, 1});
    });
    abi::QueryPortReply r;
    int good = 0;
    for (int i = 0; i < 2000; ++i) good += c.receive(&r, sizeof r) == 0;
    poster.join();
    CHECK(good == 2000);
    CHECK(r.active_mtu == 5);
}

TEST_CASE("the file behind a part of a region: nothing else of it is mapped, and it goes with the registration") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open(0, abi::kFeatureProcessVm | abi::kFeatureMapped);
    REQUIRE(c.status == 0);
    const int fd = memfd_create("part-of-region", MFD_CLOEXEC);
    REQUIRE(ftruncate(fd, 1 << 20) == 0);
    struct stat st{};
    REQUIRE(fstat(fd, &st) == 0);
    const auto mapped = [] {
        std::ifstream maps("/proc/self/maps");  // the daemon is in this process
        size_t n = 0;
        for (std::string line; std::getline(maps, line);) n += line.find("part-of-region") != std::string::npos;
        return n;
    };
    constexpr uint64_t kVa = 0x100000, kLength = 0x10000;
    const auto file = [&](uint64_t va, uint64_t length) { return abi::RegionFile{va, length, 8192, st.st_dev, st.st_ino, 0, 0}; };
    abi::RegMrReply reply;
    auto request = mr_request(c.pd, kVa, kLength, access_flags::kLocalWrite);
    // In front of the region, beyond its end, larger than it, at the end of all addresses, nothing, or another file.
    auto other = file(kVa, kLength);
    ++other.inode;
    for (const abi::RegionFile& bad : {file(kVa - 4096, 8192), file(kVa + 0xf000, 8192), file(kVa, kLength + 1), file(~uint64_t{0}, 4096),
                                       file(kVa + 4096, ~uint64_t{0}), file(kVa, 0), other}) {
        request.file = bad;
        REQUIRE(c.call(request, reply, fd) == 0);
        CHECK(mapped() == 0);
        CHECK(c.call(abi::DeregMrRequest{reply.key}) == 0);
    }
    request.file = file(kVa + 4096, 8192);
    request.file.share_error = ENOMEM;
    REQUIRE(c.call(request, reply, fd) == 0);
    CHECK(mapped() == 1);
    abi::ReregMrRequest again;
    again.key = reply.key;
    again.mask = abi::rereg_mask::kTranslation;
    again.va = kVa;
    again.length = kLength;
    again.file = file(kVa, kLength);
    CHECK(c.call(again, fd) == 0);
    CHECK(mapped() == 1);
    again.file = file(kVa - 1, kLength);
    CHECK(c.call(again, fd) == 0);
    CHECK(mapped() == 0);
    CHECK(c.call(again) == 0);  // without
    CHECK(mapped() == 0);
    CHECK(c.call(abi::DeregMrRequest{reply.key}) == 0);
    close(fd);
}
