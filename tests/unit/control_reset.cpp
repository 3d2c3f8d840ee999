// SPDX-License-Identifier: BSD-3-Clause
// What ends while payload of the QP is under way: modify_qp to RESET waits for it, and the program sees no error; of a
// program that died nobody waits for anything.
// The client's queues are written by hand (lib/abi/queues.h); its agent is the test, so nothing ends before it says so.
#include <catch2/catch.hpp>
#include <optional>

#include "abi/agent_ring.h"
#include "abi/queues.h"
#include "abi/session_page.h"
#include "support/control_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

struct Mapping {
    explicit Mapping(int fd) : bytes(static_cast<size_t>(lseek(fd, 0, SEEK_END))) {
        p = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        REQUIRE(p != MAP_FAILED);
    }
    ~Mapping() { munmap(p, bytes); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    template <typename T>
    T& at(uint64_t offset) {
        return *reinterpret_cast<T*>(p + offset);
    }
    size_t bytes;
    std::byte* p;
};

// The first v2 address of the device with an IPv4 address in it.
abi::GidRecord address_of(ControlClient& c) {
    abi::QueryGidReply r;
    REQUIRE(c.call(abi::QueryGidRequest{c.context, 1, 0}, r) == 0);
    for (uint32_t i = 0; i < r.count; ++i)
        if (r.gids[i].type == static_cast<uint32_t>(abi::GidType::RoceV2) && r.gids[i].gid[10] == 0xff)
            return r.gids[i];
    FAIL("no IPv4 address");
    return {};
}

int modify(ControlClient& c, uint32_t qpn, QpState to, uint32_t mask, abi::QpAttrRecord attr) {
    attr.state = static_cast<uint32_t>(to);
    return c.call(abi::ModifyQpRequest{qpn, mask | qp_attr_mask::kState, attr});
}

// A QP connected to itself.
void connect(ControlClient& c, uint32_t qpn) {
    using namespace qp_attr_mask;
    const abi::GidRecord gid = address_of(c);
    abi::QpAttrRecord a;
    a.port_num = a.ah_port = a.is_global = 1;
    a.path_mtu = 3;
    a.dest_qpn = qpn;
    std::memcpy(a.dgid, gid.gid, sizeof a.dgid);
    a.sgid_index = static_cast<uint8_t>(gid.index);
    a.max_rd_atomic = a.max_dest_rd_atomic = 1;
    REQUIRE(modify(c, qpn, QpState::Init, kPkeyIndex | kPort | kAccessFlags, a) == 0);
    REQUIRE(modify(c, qpn, QpState::Rtr, kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer, a) == 0);
    REQUIRE(modify(c, qpn, QpState::Rts, kSqPsn | kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic, a) == 0);
}

void post_send(Mapping& queues, const abi::CreateQpReply& qp, uint32_t lkey) {
    abi::SqWqe wqe{};
    wqe.opcode = static_cast<uint8_t>(WrOpcode::Send);
    wqe.num_sge = 1;
    const abi::WqeSge sge{0x1000, 100, lkey};
    std::byte* slot = queues.p + qp.sq.offset + sizeof(abi::QueueHeader);
    std::memcpy(slot, &wqe, sizeof wqe);
    std::memcpy(slot + sizeof wqe, &sge, sizeof sge);
    queues.at<abi::QueueHeader>(qp.sq.offset).producer.store(1, std::memory_order_release);
}

void ring(abi::DoorbellBlock& bell, uint32_t slot, int wake_fd) {
    const uint32_t word = slot / 64;
    bell.words[word].fetch_or(uint64_t{1} << (slot % 64));
    bell.summary[word / 64].fetch_or(uint64_t{1} << (word % 64));
    bell.top.fetch_or(uint64_t{1} << (word / 64));
    const uint64_t one = 1;
    REQUIRE(write(wake_fd, &one, sizeof one) == sizeof one);
}

// A program whose agent has been given a job.
struct Program {
    explicit Program(const ControlWorld& world, const std::function<void()>& turn = {}) : c(world.path(), turn) {
        c.open(0, abi::kFeatureAgent);
        REQUIRE(c.status == 0);
        REQUIRE(c.welcome.payload_path == abi::kPathAgent);
        abi::RegMrRequest region;
        region.pd = c.pd;
        region.va = region.iova = 0x1000;
        region.length = 4096;
        abi::RegMrReply mr;
        REQUIRE(c.call(region, mr) == 0);
        REQUIRE(c.call(c.qp_request(), qp) == 0);
        connect(c, qp.qpn);
        // fds: region 0, the shard's eventfd, then regions of queues.
        session.emplace(c.fds[0]);
        queues.emplace(c.fds.back());
        post_send(*queues, qp, mr.key);
        ring(session->at<abi::DoorbellBlock>(c.welcome.doorbells_offset), qp.slot, c.fds[1]);
        while (agent().submitted.load() == 0) turn ? turn() : static_cast<void>(usleep(1000));
    }
    abi::AgentRing& agent() { return session->at<abi::AgentRing>(c.welcome.agent_offset); }

    ControlClient c;
    abi::CreateQpReply qp;
    std::optional<Mapping> session, queues;
};

}  // namespace

TEST_CASE("RESET while payload is under way waits for it", "[10.3.1]") {
    ControlWorld world;
    Program p(world);
    abi::QpAttrRecord reset;
    reset.state = static_cast<uint32_t>(QpState::Reset);
    p.c.post(abi::ModifyQpRequest{p.qp.qpn, qp_attr_mask::kState, reset});
    CHECK_FALSE(p.c.readable(200));
    p.agent().jobs[0].result = static_cast<uint32_t>(abi::AgentResult::Ok);
    p.agent().done.store(p.agent().submitted.load(), std::memory_order_release);
    abi::ModifyQpReply reply;
    REQUIRE(p.c.receive(&reply, sizeof reply) == 0);
    CHECK(reply.attr.state == static_cast<uint32_t>(QpState::Reset));
    // It can be used again. RESET empties the queue, on the program's side too.
    p.queues->at<abi::QueueHeader>(p.qp.sq.offset).producer.store(0, std::memory_order_release);
    connect(p.c, p.qp.qpn);
}

TEST_CASE("a program that dies while payload is under way is not waited for") {
    ControlWorld world({}, ControlWorld::Drive::Turns);
    Program p(world, [&] { world.turn(); });
    CHECK(world.shard().load().qps == 1);
    p.c.disconnect();
    // Far from what a job may take.
    for (int i = 0; i < 1000 && world.shard().load().qps != 0; ++i) world.turn();
    CHECK(world.shard().load().qps == 0);
}
