// SPDX-License-Identifier: BSD-3-Clause
// Objects that others lean on, through the control socket: shared receive queues and their QPs, memory windows and
// their regions, regions that are registered anew, CQs of another size.
#include <catch2/catch.hpp>

#include "support/control_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

constexpr uint32_t kBindable = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kMwBind;

abi::RegMrRequest mr_request(uint32_t pd, uint32_t access = kBindable) {
    abi::RegMrRequest r;
    r.pd = pd;
    r.va = r.iova = 0x10000;
    r.length = 4096;
    r.access = access;
    return r;
}

}  // namespace

TEST_CASE("an SRQ: sizes, limit, in use by QPs", "[case25]") {
    ControlWorld world;
    ControlClient c(world.path()), other(world.path());
    c.open();
    other.open();
    REQUIRE(c.status == 0);
    abi::CreateSrqRequest r;
    r.pd = c.pd;
    r.max_wr = 100;
    r.max_sge = 3;
    abi::CreateSrqReply srq;
    CHECK(other.call(r, srq) == EINVAL);
    REQUIRE(c.call(r, srq) == 0);
    CHECK(srq.max_wr == 128);
    CHECK(srq.max_sge == 3);
    CHECK(srq.queue.entries == 128);
    r.max_wr = 0;
    abi::CreateSrqReply none;
    CHECK(c.call(r, none) == EINVAL);
    r.max_wr = 1u << 30;
    CHECK(c.call(r, none) == EINVAL);

    abi::CreateQpRequest q = c.qp_request();
    q.srq = srq.srq;
    abi::CreateQpReply qp;
    REQUIRE(c.call(q, qp) == 0);
    CHECK(qp.max_recv_wr == 0);  // ibv_create_qp(3)
    CHECK(qp.rq.entries == 0);
    CHECK(other.call(abi::DestroySrqRequest{srq.srq}) == EINVAL);
    CHECK(c.call(abi::DestroySrqRequest{srq.srq}) == EBUSY);
    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == EBUSY);

    abi::ModifySrqReply changed;
    CHECK(c.call(abi::ModifySrqRequest{srq.srq, srq_attr_mask::kLimit, 0, 129}, changed) == EINVAL);
    CHECK(c.call(abi::ModifySrqRequest{srq.srq, 8, 0, 0}, changed) == EINVAL);
    REQUIRE(c.call(abi::ModifySrqRequest{srq.srq, srq_attr_mask::kMaxWr, 500, 0}, changed) == 0);
    CHECK(changed.max_wr == 512);
    CHECK(changed.queue.entries == 512);
    abi::QuerySrqReply query;
    REQUIRE(c.call(abi::QuerySrqRequest{srq.srq}, query) == 0);
    CHECK(query.max_wr == 512);
    CHECK(query.limit == 0);
    CHECK(c.call(abi::DestroyQpRequest{qp.qpn}) == 0);
    CHECK(c.call(abi::DestroySrqRequest{srq.srq}) == 0);
    CHECK(c.call(abi::QuerySrqRequest{srq.srq}, query) == EINVAL);
    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == 0);
}

TEST_CASE("windows of type 1 are bound by control; their region stays while they are") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    abi::AllocMwReply mw;
    CHECK(c.call(abi::AllocMwRequest{c.pd, 3}, mw) == EINVAL);
    REQUIRE(c.call(abi::AllocMwRequest{c.pd, 1}, mw) == 0);
    abi::RegMrReply mr;
    REQUIRE(c.call(mr_request(c.pd), mr) == 0);
    abi::CreateQpReply qp;
    REQUIRE(c.call(c.qp_request(), qp) == 0);
    abi::BindMwRequest bind{qp.qpn, mw.key, mr.key, access_flags::kRemoteWrite, 0x10000, 4096};
    abi::BindMwReply bound;
    REQUIRE(c.call(bind, bound) == 0);
    CHECK(bound.bound == 1);
    CHECK(bound.key != mw.key);
    CHECK(bound.key >> 8 == mw.key >> 8);
    CHECK(c.call(abi::DeregMrRequest{mr.key}) == EBUSY);
    bind.length = 4097;
    REQUIRE(c.call(bind, bound) == 0);
    CHECK(bound.bound == 0);
    bind.length = 0;
    REQUIRE(c.call(bind, bound) == 0);
    CHECK(bound.bound == 1);
    CHECK(c.call(abi::DeregMrRequest{mr.key}) == 0);
    CHECK(c.call(abi::DeallocPdRequest{c.pd}) == EBUSY);
    CHECK(c.call(abi::DeallocMwRequest{mw.key}) == 0);
    CHECK(c.call(abi::DeallocMwRequest{mw.key}) == EINVAL);
    REQUIRE(c.call(abi::AllocMwRequest{c.pd, 2}, mw) == 0);
    bind.window = mw.key;
    CHECK(c.call(bind, bound) == EINVAL);  // type 2: by work request
}

TEST_CASE("a region is registered anew under its key") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    abi::AllocPdReply second;
    REQUIRE(c.call(abi::AllocPdRequest{c.context}, second) == 0);
    abi::RegMrReply mr;
    REQUIRE(c.call(mr_request(c.pd), mr) == 0);
    abi::ReregMrRequest r;
    r.key = mr.key;
    r.mask = abi::rereg_mask::kPd;
    r.pd = second.pd + 1000;
    CHECK(c.call(r) == EINVAL);
    r.pd = second.pd;
    CHECK(c.call(r) == 0);
    CHECK(c.call(abi::DeallocPdRequest{second.pd}) == EBUSY);
    r.mask = abi::rereg_mask::kAccess;
    r.access = access_flags::kRemoteWrite;
    CHECK(c.call(r) == EINVAL);
    r.mask = abi::rereg_mask::kTranslation;
    r.va = ~uint64_t{0} - 10;
    r.length = 100;
    CHECK(c.call(r) == EINVAL);
    CHECK(c.call(abi::DeregMrRequest{mr.key}) == 0);
    CHECK(c.call(abi::DeallocPdRequest{second.pd}) == 0);
    CHECK(c.call(r) == EINVAL);
}

TEST_CASE("events that wait for room end with their object") {
    ControlWorld world;
    ControlClient c(world.path());
    REQUIRE(c.hello() == 0);
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    const int little = 4096;  // it holds a few
    REQUIRE(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
    abi::OpenContextReply context;
    REQUIRE(c.call(abi::OpenContextRequest{0}, context, pair[1]) == 0);
    close(pair[1]);
    abi::AllocPdReply pd;
    REQUIRE(c.call(abi::AllocPdRequest{context.context}, pd) == 0);
    constexpr uint64_t kStays = 1000, kGoes = 1001;
    abi::CreateSrqRequest r;
    r.pd = pd.pd;
    r.max_wr = r.max_sge = 1;
    abi::CreateSrqReply stays, goes;
    r.cookie = kStays;
    REQUIRE(c.call(r, stays) == 0);
    r.cookie = kGoes;
    REQUIRE(c.call(r, goes) == 0);
    // Nothing is posted: each is an event at once.
    constexpr int kEvents = 100;
    abi::ModifySrqReply changed;
    for (int i = 0; i < kEvents; ++i) {
        REQUIRE(c.call(abi::ModifySrqRequest{stays.srq, srq_attr_mask::kLimit, 0, 1}, changed) == 0);
        if (i > kEvents / 2)
            REQUIRE(c.call(abi::ModifySrqRequest{goes.srq, srq_attr_mask::kLimit, 0, 1}, changed) == 0);
    }
    REQUIRE(c.call(abi::DestroySrqRequest{goes.srq}) == 0);
    abi::AsyncEventRecord record;
    for (int i = 0; i < kEvents; ++i) {
        pollfd p{pair[0], POLLIN, 0};
        REQUIRE(poll(&p, 1, 10'000) == 1);
        REQUIRE(recv(pair[0], &record, sizeof record, 0) == sizeof record);
        REQUIRE(record.element == kStays);
    }
    pollfd p{pair[0], POLLIN, 0};
    CHECK(poll(&p, 1, 50) == 0);
    close(pair[0]);
}

TEST_CASE("a CQ of another size") {
    ControlWorld world;
    ControlClient c(world.path());
    c.open();
    REQUIRE(c.status == 0);
    abi::ResizeCqReply r;
    CHECK(c.call(abi::ResizeCqRequest{c.cq + 1000, 10}, r) == EINVAL);
    CHECK(c.call(abi::ResizeCqRequest{c.cq, 0}, r) == EINVAL);
    REQUIRE(c.call(abi::ResizeCqRequest{c.cq, 1000}, r) == 0);
    CHECK(r.queue.entries == 1024);
    REQUIRE(c.call(abi::ResizeCqRequest{c.cq, 3}, r) == 0);
    CHECK(r.queue.entries == 4);
    CHECK(c.call(abi::DestroyCqRequest{c.cq}) == 0);
}
