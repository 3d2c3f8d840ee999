// SPDX-License-Identifier: BSD-3-Clause
// XRC domains through the control socket: opened by a file or not, shared by processes, in use by SRQs and by handles of
// target QPs; what outlives its creator. IBTA annex A14, ibv_open_xrcd(3), ibv_open_qp(3).
#include <catch2/catch.hpp>

#include "support/control_status.h"

using namespace rocemu;
using namespace rocemu::test;
using abi::xrcd_flags::kCreate;
using abi::xrcd_flags::kExclusive;
using abi::xrcd_flags::kOfFile;

namespace {

struct File {
    int fd = memfd_create("xrcd", MFD_CLOEXEC);
    ~File() { close(fd); }
};

struct Client : ControlClient {
    explicit Client(const ControlWorld& world) : ControlClient(world.path()) {
        open();
        REQUIRE(status == 0);
    }
    int open_xrcd(uint32_t flags, uint32_t& xrcd, int fd = -1) {
        abi::OpenXrcdReply reply;
        const int rc = call(abi::OpenXrcdRequest{context, flags}, reply, fd);
        xrcd = reply.xrcd;
        return rc;
    }
    uint32_t shared(const File& file) {
        uint32_t xrcd = 0;
        REQUIRE(open_xrcd(kOfFile | kCreate, xrcd, file.fd) == 0);
        return xrcd;
    }
    int target(uint32_t xrcd, uint32_t& qpn, uint64_t cookie = 1) {
        abi::CreateQpRequest r;
        r.type = static_cast<uint32_t>(QpType::XrcRecv);
        r.xrcd = xrcd;
        r.cookie = cookie;
        abi::CreateQpReply reply;
        const int rc = call(r, reply);
        qpn = reply.qpn;
        return rc;
    }
    int srq(uint32_t xrcd, uint32_t& number) {
        abi::CreateSrqRequest r;
        r.pd = pd;
        r.max_wr = 8;
        r.max_sge = 2;
        r.xrcd = xrcd;
        r.cq = cq;
        abi::CreateSrqReply reply;
        const int rc = call(r, reply);
        number = reply.srq;
        return rc;
    }
    int open_qp(uint32_t xrcd, uint32_t qpn, uint64_t cookie) { return call(abi::OpenQpRequest{xrcd, qpn, cookie}); }
    int destroy_qp(uint32_t qpn, uint64_t cookie) { return call(abi::DestroyQpRequest{qpn, 0, cookie}); }
    bool finds(uint32_t qpn) { return call(abi::QueryQpRequest{qpn}) == 0; }
    int close_xrcd(uint32_t xrcd) { return call(abi::CloseXrcdRequest{xrcd}); }
};

// A process that has died is gone from the shards a little later.
template <typename Condition>
bool becomes(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
        if (condition()) return true;
        usleep(5000);
    }
    return false;
}

}  // namespace

TEST_CASE("a domain is found by its file, and as open(2) says", "[A14]") {
    ControlWorld world;
    Client a(world), b(world);
    File file, other;
    uint32_t first = 0, second = 0, third = 0;
    CHECK(a.open_xrcd(kOfFile, first, file.fd) == EAGAIN);  // nobody has created it
    CHECK(a.open_xrcd(kOfFile | kCreate, first) == EBADF);  // no file came with it
    REQUIRE(a.open_xrcd(kOfFile | kCreate, first, file.fd) == 0);
    CHECK(b.open_xrcd(kOfFile | kCreate | kExclusive, second, file.fd) == EINVAL);
    REQUIRE(b.open_xrcd(kOfFile, second, file.fd) == 0);
    REQUIRE(b.open_xrcd(kOfFile | kCreate, third, other.fd) == 0);
    uint32_t qpn = 0;
    REQUIRE(a.target(first, qpn) == 0);
    CHECK(b.open_qp(third, qpn, 1) == EINVAL);
    CHECK(b.open_qp(second, qpn, 1) == 0);
    // Of another context: a domain is the device's.
    CHECK(a.call(abi::OpenXrcdRequest{a.context + 1, 0}) == EINVAL);
    CHECK(b.close_xrcd(first + 100) == EINVAL);
    CHECK(b.close_xrcd(third) == 0);
    CHECK(b.close_xrcd(third) == EINVAL);
}

TEST_CASE("a domain without a file is the process's own", "[A14]") {
    ControlWorld world;
    Client a(world);
    uint32_t first = 0, second = 0, qpn = 0;
    REQUIRE(a.open_xrcd(kCreate, first) == 0);
    REQUIRE(a.open_xrcd(kCreate, second) == 0);
    REQUIRE(a.target(first, qpn) == 0);
    CHECK(a.open_qp(second, qpn, 2) == EINVAL);
    CHECK(a.open_qp(first, qpn, 2) == 0);
}

TEST_CASE("what uses a domain keeps it, and an XRC SRQ keeps its CQ", "[A14]") {
    ControlWorld world;
    Client a(world);
    uint32_t xrcd = 0, qpn = 0, srq = 0, none = 0;
    REQUIRE(a.open_xrcd(0, xrcd) == 0);
    CHECK(a.srq(xrcd + 1, none) == EINVAL);
    REQUIRE(a.srq(xrcd, srq) == 0);
    CHECK(a.close_xrcd(xrcd) == EBUSY);
    CHECK(a.call(abi::DestroyCqRequest{a.cq}) == EBUSY);
    // It is no queue of an ordinary QP.
    abi::CreateQpRequest rc = a.qp_request();
    rc.srq = srq;
    CHECK(a.call(rc) == EINVAL);
    CHECK(a.call(abi::DestroySrqRequest{srq}) == 0);
    CHECK(a.target(xrcd + 1, none) == EINVAL);
    REQUIRE(a.target(xrcd, qpn, 7) == 0);
    CHECK(a.close_xrcd(xrcd) == EBUSY);
    CHECK(a.destroy_qp(qpn, 8) == EINVAL);  // no such handle
    CHECK(a.destroy_qp(qpn, 7) == 0);
    CHECK(a.close_xrcd(xrcd) == 0);
    CHECK(a.call(abi::DestroyCqRequest{a.cq}) == 0);
    CHECK(a.call(abi::DeallocPdRequest{a.pd}) == 0);
}

TEST_CASE("an initiator has a send queue alone", "[A14]") {
    ControlWorld world;
    Client a(world);
    abi::CreateQpRequest r = a.qp_request();
    r.type = static_cast<uint32_t>(QpType::XrcSend);
    r.recv_cq = 0;
    abi::CreateQpReply reply;
    REQUIRE(a.call(r, reply) == 0);
    CHECK(reply.rq.entries == 0);
    CHECK(reply.max_recv_wr == 0);
    CHECK(reply.sq.entries == 16);
    CHECK(a.destroy_qp(reply.qpn, 0) == 0);
}

TEST_CASE("a target lives as long as anybody has a handle of it", "[A14]") {
    ControlWorld world;
    Client b(world);
    File file;
    uint32_t qpn = 0, late = 0;
    const uint32_t xrcd = b.shared(file);
    {
        Client a(world);
        REQUIRE(a.target(a.shared(file), qpn, 1) == 0);
        abi::QpAttrRecord attr;
        attr.state = 1;
        attr.port_num = 1;
        using namespace qp_attr_mask;
        REQUIRE(a.call(abi::ModifyQpRequest{qpn, kState | kPkeyIndex | kPort | kAccessFlags, attr}) == 0);
        CHECK_FALSE(b.finds(qpn));  // not opened
        REQUIRE(b.open_qp(xrcd, qpn, 5) == 0);
        REQUIRE(b.open_qp(xrcd, qpn, 6) == 0);
        REQUIRE(a.target(a.shared(file), late) == 0);
    }
    // The creator is gone: what nobody else opened goes with it.
    CHECK(becomes([&] { return world.shard().load().qps.load() == 1; }));
    CHECK(b.open_qp(xrcd, late, 9) == EINVAL);
    abi::QueryQpReply query;
    REQUIRE(b.call(abi::QueryQpRequest{qpn}, query) == 0);
    CHECK(query.attr.state == 1);
    const auto domains = status_of(world)["xrc_domains"];
    REQUIRE(domains.size() == 1);
    CHECK(domains[0]["opens"] == 1);
    REQUIRE(domains[0]["targets"].size() == 1);
    CHECK(domains[0]["targets"][0]["qpn"] == qpn);
    CHECK(domains[0]["targets"][0]["sessions"].size() == 2);
    CHECK(b.destroy_qp(qpn, 5) == 0);
    CHECK(b.finds(qpn));
    CHECK(b.close_xrcd(xrcd) == EBUSY);
    CHECK(b.destroy_qp(qpn, 6) == 0);
    CHECK_FALSE(b.finds(qpn));
    CHECK(b.destroy_qp(qpn, 6) == EINVAL);
    CHECK(b.close_xrcd(xrcd) == 0);
    // Nobody has it open: it is another one now.
    uint32_t again = 0;
    CHECK(b.open_xrcd(kOfFile, again, file.fd) == EAGAIN);
}

TEST_CASE("processes that die in any order leave nothing of a domain", "[A14]") {
    ControlWorld world;
    File file;
    for (int round = 0; round < 20; ++round) {
        auto a = std::make_unique<Client>(world), b = std::make_unique<Client>(world);
        const uint32_t xa = a->shared(file), xb = b->shared(file);
        uint32_t qpn = 0, srq = 0;
        REQUIRE(a->target(xa, qpn) == 0);
        REQUIRE(b->open_qp(xb, qpn, 3) == 0);
        REQUIRE(a->srq(xa, srq) == 0);
        REQUIRE(b->srq(xb, srq) == 0);
        (round % 2 ? a : b).reset();
        (round % 2 ? b : a)->call(abi::QueryQpRequest{qpn});
    }
    Client last(world);
    uint32_t xrcd = 0;
    CHECK(becomes([&] {
        const int rc = last.open_xrcd(kOfFile, xrcd, file.fd);
        if (rc == 0) last.close_xrcd(xrcd);
        return rc == EAGAIN;
    }));
    CHECK(becomes([&] { return world.shard().load().qps.load() == 0; }));
}
