// SPDX-License-Identifier: BSD-3-Clause
// What an application of EngineWorld has: a session, and queues in plain memory laid out as lib/abi says, into which it
// posts by hand.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "abi/agent_ring.h"
#include "abi/queues.h"
#include "abi/receive_stage.h"
#include "abi/session_page.h"
#include "abi/stage.h"
#include "engine/setup.h"

namespace rocemu::test {

// Shared memory from which queues are cut side by side, as control does (control/queue_arena.h).
class QueueRegion {
  public:
    explicit QueueRegion(size_t bytes)
        : bytes_(bytes), p_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (p_ == MAP_FAILED) throw std::bad_alloc();
    }
    ~QueueRegion() { munmap(p_, bytes_); }
    QueueRegion(const QueueRegion&) = delete;
    QueueRegion& operator=(const QueueRegion&) = delete;
    std::byte* take(size_t bytes) {
        bytes = (bytes + 127) / 128 * 128;
        if (bytes > bytes_ - used_) throw std::bad_alloc();
        used_ += bytes;
        return static_cast<std::byte*>(p_) + used_ - bytes;
    }

  private:
    size_t bytes_, used_ = 0;
    void* p_;
};

// Zeroed memory of any ABI type: aligned to a page, or a part of a region.
struct Zeroed {
    explicit Zeroed(size_t bytes, QueueRegion* region = nullptr)
        : p(region != nullptr ? region->take(bytes)
                              : static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))),
          owned(region == nullptr) {
        if (owned) std::memset(p, 0, (bytes + 4095) / 4096 * 4096);
    }
    ~Zeroed() {
        if (owned) std::free(p);
    }
    Zeroed(const Zeroed&) = delete;
    Zeroed& operator=(const Zeroed&) = delete;
    template <typename T>
    T* as(size_t offset = 0) {
        return reinterpret_cast<T*>(p + offset);
    }
    std::byte* p;
    bool owned;
};

struct AppCq {
    AppCq(uint32_t n) : entries(n), memory(sizeof(abi::QueueHeader) + size_t{n} * sizeof(abi::Cqe)) {}
    abi::QueueHeader& header() { return *memory.as<abi::QueueHeader>(); }
    // The provider's side of abi/queues.h.
    bool poll(abi::Cqe& out) {
        auto* slots = memory.as<abi::Cqe>(sizeof(abi::QueueHeader));
        abi::Cqe& e = slots[consumer & (entries - 1)];
        if (e.phase.load(std::memory_order_acquire) != ((consumer / entries + 1) & 1)) return false;
        std::memcpy(static_cast<void*>(&out), &e, sizeof out);
        header().consumer.store(++consumer, std::memory_order_release);
        return true;
    }
    uint32_t entries;
    uint32_t consumer = 0;
    Zeroed memory;
};

struct AppSession {
    AppSession() : page(sizeof(abi::SessionPage)), doorbells(sizeof(abi::DoorbellBlock)) {}
    ~AppSession() { close(wake_fd); }
    AppSession(const AppSession&) = delete;
    AppSession& operator=(const AppSession&) = delete;
    void ring(uint32_t slot) {
        auto& d = *doorbells.as<abi::DoorbellBlock>();
        const uint32_t word = slot / 64, summary = word / 64;
        if (d.words[word].fetch_or(uint64_t{1} << (slot % 64)) != 0) return;
        if (d.summary[summary].fetch_or(uint64_t{1} << (word % 64)) != 0) return;
        d.top.fetch_or(uint64_t{1} << summary);
    }
    // It may have stood still in the middle of a job.
    static bool takes(abi::AgentJob& job, uint32_t n) {
        return job.state == abi::agent_job_word(n, abi::AgentJobState::Taken) ||
               job.change_state(n, abi::AgentJobState::Taken);
    }
    // What the agent thread does, one pass over the ring.
    void serve_agent() {
        auto& r = *agent->as<abi::AgentRing>();
        for (uint32_t n = r.done.load(); n != r.submitted.load(std::memory_order_acquire); ++n) {
            abi::AgentJob& job = r.jobs[n % abi::kAgentJobs];
            auto* va = reinterpret_cast<std::byte*>(job.va);
            job.result = static_cast<uint32_t>(abi::AgentResult::Ok);
            if (!takes(job, n)) {
                // the daemon does not want it any more
            } else if (job.va < 4096) {
                job.result = static_cast<uint32_t>(abi::AgentResult::Fault);
            } else if (job.op == static_cast<uint32_t>(abi::AgentOp::Read)) {
                std::memcpy(r.stage + job.stage_offset, va, job.length);
            } else if (job.op == static_cast<uint32_t>(abi::AgentOp::Write)) {
                std::memcpy(va, r.stage + job.stage_offset, job.length);
            } else {
                uint64_t v;
                std::memcpy(&v, va, 8);
                job.original = v;
                if (job.op == static_cast<uint32_t>(abi::AgentOp::FetchAdd))
                    v += job.compare_add;
                else if (v == job.compare_add)
                    v = job.swap;
                std::memcpy(va, &v, 8);
            }
            r.done.store(n + 1, std::memory_order_release);
        }
    }
    engine::SessionId id = 0;
    Zeroed page, doorbells;
    std::unique_ptr<Zeroed> agent, stage, receive_stage;
    bool agent_runs = true;  // its agent takes part in EngineWorld::run_until
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
};

struct AppQp {
    AppQp(AppSession& s, AppCq& scq, AppCq& rcq, uint32_t number, const transport::QpCaps& c,
          QueueRegion* region = nullptr)
        : session(s),
          send_cq(scq),
          recv_cq(rcq),
          qpn(number),
          caps(c),
          sq_stride(abi::sq_stride(c.max_send_sge, c.max_inline_data)),
          rq_stride(abi::rq_stride(c.max_recv_sge)),
          sq(sizeof(abi::QueueHeader) + size_t{c.max_send_wr} * sq_stride, region),
          rq(sizeof(abi::QueueHeader) + size_t{c.max_recv_wr} * rq_stride, region) {}

    abi::QueueHeader& sq_header() { return *sq.as<abi::QueueHeader>(); }
    abi::QueueHeader& rq_header() { return *rq.as<abi::QueueHeader>(); }
    std::byte* sq_slot(uint32_t i) {
        return sq.p + sizeof(abi::QueueHeader) + size_t{i & (caps.max_send_wr - 1)} * sq_stride;
    }
    std::byte* rq_slot(uint32_t i) {
        return rq.p + sizeof(abi::QueueHeader) + size_t{i & (caps.max_recv_wr - 1)} * rq_stride;
    }

    void post_send(abi::SqWqe wqe, std::vector<abi::WqeSge> sges = {}, std::vector<std::byte> inline_data = {}) {
        std::byte* slot = sq_slot(sq_producer);
        wqe.num_sge = static_cast<uint8_t>(sges.size());
        if (!inline_data.empty()) {
            wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Inline);
            wqe.length = static_cast<uint32_t>(inline_data.size());
            std::memcpy(slot + sizeof wqe, inline_data.data(), inline_data.size());
        }
        std::memcpy(slot, &wqe, sizeof wqe);
        if (!sges.empty()) std::memcpy(slot + sizeof wqe, sges.data(), sges.size() * sizeof(abi::WqeSge));
        sq_header().producer.store(++sq_producer, std::memory_order_release);
        session.ring(slot_number);
    }
    void post_recv(uint64_t wr_id, std::vector<abi::WqeSge> sges) {
        const abi::RqWqe wqe{wr_id, static_cast<uint32_t>(sges.size()), 0};
        std::byte* slot = rq_slot(rq_producer);
        std::memcpy(slot, &wqe, sizeof wqe);
        if (!sges.empty()) std::memcpy(slot + sizeof wqe, sges.data(), sges.size() * sizeof(abi::WqeSge));
        rq_header().producer.store(++rq_producer, std::memory_order_release);
    }

    AppSession& session;
    AppCq& send_cq;
    AppCq& recv_cq;
    uint32_t qpn;
    uint32_t slot_number = 0;
    uint32_t device = 0;
    QpType type = QpType::Rc;
    transport::QpCaps caps;
    uint32_t sq_stride, rq_stride;
    Zeroed sq, rq;
    uint32_t sq_producer = 0, rq_producer = 0;
};

struct AppSrq {
    AppSrq(uint32_t n, uint32_t max_sge)
        : entries(n), stride(abi::rq_stride(max_sge)), memory(sizeof(abi::QueueHeader) + size_t{n} * stride) {}
    abi::QueueHeader& header() { return *memory.as<abi::QueueHeader>(); }
    engine::QueueView view() { return {&header(), memory.p + sizeof(abi::QueueHeader), entries, stride}; }
    void post(uint64_t wr_id, const abi::WqeSge& s) {
        const abi::RqWqe wqe{wr_id, 1, 0};
        std::byte* slot = view().slots + size_t{producer & (entries - 1)} * stride;
        std::memcpy(slot, &wqe, sizeof wqe);
        std::memcpy(slot + sizeof wqe, &s, sizeof s);
        header().producer.store(++producer, std::memory_order_release);
    }
    uint32_t consumed() { return header().consumer.load(); }
    engine::SrqId id = 0;
    uint64_t cookie = 0;
    uint32_t entries, stride;
    uint32_t producer = 0;
    Zeroed memory;
};

inline abi::SqWqe make_wqe(WrOpcode opcode, uint64_t wr_id = 0, uint8_t flags = send_flags::kSignaled) {
    abi::SqWqe w{};
    w.wr_id = wr_id;
    w.opcode = static_cast<uint8_t>(opcode);
    w.flags = flags;
    return w;
}

inline abi::WqeSge sge(const void* p, uint32_t length, uint32_t key) {
    return {reinterpret_cast<uintptr_t>(p), length, key};
}

}  // namespace rocemu::test
