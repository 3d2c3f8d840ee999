// SPDX-License-Identifier: BSD-3-Clause
// The border between applications and the daemon may not change unnoticed: sizes and offsets of everything in lib/abi
// against layout.golden. A deliberate change: raise abi/version.h as its comment says, then let this test write the new
// file (ROCEMU_WRITE_GOLDEN=1).
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "abi/agent_ring.h"
#include "abi/messages.h"
#include "abi/queues.h"
#include "abi/receive_stage.h"
#include "abi/session_page.h"
#include "abi/stage.h"

using namespace rocemu::abi;

namespace {

class Layout {
  public:
    void size(const char* name, size_t bytes, size_t alignment) {
        text_ << name << ": " << bytes << " bytes, aligned to " << alignment << "\n";
    }
    void field(const char* name, size_t offset, size_t bytes) {
        text_ << "    " << name << " at " << offset << ", " << bytes << "\n";
    }
    void constant(const char* name, uint64_t value) { text_ << name << " = " << value << "\n"; }
    [[nodiscard]] std::string text() const { return text_.str(); }

  private:
    std::ostringstream text_;
};

#define SIZE(type) l.size(#type, sizeof(type), alignof(type))
#define FIELD(type, name) l.field(#name, offsetof(type, name), sizeof(type::name))
#define CONSTANT(name) l.constant(#name, static_cast<uint64_t>(name))

void queues(Layout& l) {
    SIZE(QueueHeader);
    FIELD(QueueHeader, producer);
    FIELD(QueueHeader, consumer);
    FIELD(QueueHeader, armed);
    FIELD(QueueHeader, overflow);
    FIELD(QueueHeader, retired);
    FIELD(QueueHeader, moderation);
    SIZE(WqeSge);
    FIELD(WqeSge, addr);
    FIELD(WqeSge, length);
    FIELD(WqeSge, lkey);
    SIZE(SqWqe);
    FIELD(SqWqe, wr_id);
    FIELD(SqWqe, opcode);
    FIELD(SqWqe, flags);
    FIELD(SqWqe, num_sge);
    FIELD(SqWqe, payload_kind);
    FIELD(SqWqe, length);
    FIELD(SqWqe, imm_data);
    FIELD(SqWqe, rkey);
    FIELD(SqWqe, remote_addr);
    FIELD(SqWqe, compare_add);
    FIELD(SqWqe, swap);
    FIELD(SqWqe, stage_ref);
    SIZE(RqWqe);
    FIELD(RqWqe, wr_id);
    FIELD(RqWqe, num_sge);
    SIZE(Cqe);
    FIELD(Cqe, wr_id);
    FIELD(Cqe, timestamp_ns);
    FIELD(Cqe, stage_ref);
    FIELD(Cqe, qpn);
    FIELD(Cqe, qp_slot);
    FIELD(Cqe, wqe_index);
    FIELD(Cqe, byte_len);
    FIELD(Cqe, imm_data);
    FIELD(Cqe, src_qp);
    FIELD(Cqe, vendor_err);
    FIELD(Cqe, wc_flags);
    FIELD(Cqe, slid);
    FIELD(Cqe, pkey_index);
    FIELD(Cqe, status);
    FIELD(Cqe, opcode);
    FIELD(Cqe, is_recv);
    FIELD(Cqe, sl);
    FIELD(Cqe, phase);
    for (const uint32_t sge : {1, 4, 32})
        for (const uint32_t inline_bytes : {0, 64, 100, 1024}) {
            l.constant("sq_stride", sq_stride(sge, inline_bytes));
            l.constant("rq_stride", rq_stride(sge));
        }
}

void session(Layout& l) {
    SIZE(SessionPage);
    FIELD(SessionPage, heartbeat);
    FIELD(SessionPage, cq_sleepers);
    FIELD(SessionPage, cq_wake);
    SIZE(DoorbellBlock);
    FIELD(DoorbellBlock, top);
    FIELD(DoorbellBlock, sleeping);
    FIELD(DoorbellBlock, summary);
    FIELD(DoorbellBlock, words);
    SIZE(AgentJob);
    FIELD(AgentJob, va);
    FIELD(AgentJob, length);
    FIELD(AgentJob, stage_offset);
    FIELD(AgentJob, op);
    FIELD(AgentJob, result);
    FIELD(AgentJob, compare_add);
    FIELD(AgentJob, swap);
    FIELD(AgentJob, original);
    FIELD(AgentJob, state);
    SIZE(AgentRing);
    FIELD(AgentRing, submitted);
    FIELD(AgentRing, done);
    FIELD(AgentRing, sleeping);
    FIELD(AgentRing, wanted);
    FIELD(AgentRing, jobs);
    FIELD(AgentRing, stage);
    SIZE(DeferredRecord);
    FIELD(DeferredRecord, va);
    FIELD(DeferredRecord, length);
    FIELD(DeferredRecord, offset);
    FIELD(DeferredRecord, qpn);
    FIELD(DeferredRecord, qp_slot);
    FIELD(DeferredRecord, wqe_index);
    FIELD(DeferredRecord, is_recv);
    FIELD(DeferredRecord, state);
    SIZE(ReceiveStage);
    FIELD(ReceiveStage, published);
    FIELD(ReceiveStage, records);
    FIELD(ReceiveStage, bytes);
}

void messages(Layout& l) {
    CONSTANT(kMagic);
    CONSTANT(kVersionMajor);
    CONSTANT(kVersionMinor);
    CONSTANT(kMaxMessageBytes);
    CONSTANT(kMaxShards);
    CONSTANT(kAgentJobs);
    CONSTANT(kAgentStageBytes);
    CONSTANT(kStageBytes);
    CONSTANT(kDeferredRecords);
    CONSTANT(kReceiveStageBytes);
    CONSTANT(kDeferredStateBits);
    CONSTANT(kStageBlock);
    CONSTANT(kMaxCapture);
    CONSTANT(kStageReady);
    CONSTANT(kStageInSlot);
    CONSTANT(kAgentMaxJobBytes);
    CONSTANT(kMaxQpsPerSession);
    SIZE(MessageHeader);
    FIELD(MessageHeader, magic);
    FIELD(MessageHeader, type);
    FIELD(MessageHeader, request_id);
    FIELD(MessageHeader, status);
    SIZE(QueueRef);
    SIZE(AsyncEventRecord);
    SIZE(GidRecord);
    SIZE(QpAttrRecord);
#define MESSAGE(name, number)               \
    l.constant("message " #name, number);   \
    SIZE(name##Request);                    \
    SIZE(name##Reply);
#include "abi/messages.def"
#undef MESSAGE
    // The fields that a program of another build needs to find out that it is one.
    FIELD(HelloRequest, version_major);
    FIELD(HelloRequest, version_minor);
    FIELD(HelloReply, version_major);
    FIELD(HelloReply, shards);
    FIELD(HelloReply, features);
    FIELD(HelloReply, region0_bytes);
    FIELD(HelloReply, doorbells_offset);
    FIELD(HelloReply, agent_offset);
    FIELD(HelloReply, stage_offset);
    FIELD(HelloReply, receive_stage_offset);
    FIELD(CreateCqReply, queue);
    FIELD(CreateQpReply, sq);
    FIELD(CreateQpReply, rq);
    FIELD(QpAttrRecord, dgid);
    FIELD(QpAttrRecord, sgid_index);
    FIELD(QpAttrRecord, rate_limit);
}

}  // namespace

TEST_CASE("layout of the border is the recorded one", "[abi]") {
    Layout l;
    messages(l);
    queues(l);
    session(l);
    const std::string path = ROCEMU_GOLDEN;
    if (std::getenv("ROCEMU_WRITE_GOLDEN") != nullptr) std::ofstream(path) << l.text();
    std::ifstream file(path);
    REQUIRE(file);
    std::stringstream golden;
    golden << file.rdbuf();
    std::istringstream expected(golden.str()), actual(l.text());
    std::string a, b;
    for (int line = 1; std::getline(expected, a); ++line) {
        INFO("layout.golden:" << line);
        REQUIRE(std::getline(actual, b));
        CHECK(a == b);
    }
    CHECK_FALSE(std::getline(actual, b));
}

TEST_CASE("atomics of the border are lock-free, so they work between processes", "[abi]") {
    CHECK(std::atomic<uint8_t>::is_always_lock_free);
    CHECK(std::atomic<uint32_t>::is_always_lock_free);
    CHECK(std::atomic<uint64_t>::is_always_lock_free);
}

TEST_CASE("messages fit their socket record", "[abi]") {
#define MESSAGE(name, number)                                                     \
    CHECK(sizeof(MessageHeader) + sizeof(name##Request) <= kMaxMessageBytes);     \
    CHECK(sizeof(MessageHeader) + sizeof(name##Reply) <= kMaxMessageBytes);
#include "abi/messages.def"
#undef MESSAGE
}
