// SPDX-License-Identifier: BSD-3-Clause
// EngineWorld: a shard with NICs on the embedded switch, driven in virtual time, and applications that post WQEs by
// hand into plain memory laid out as lib/abi says. No EAL, no control, no provider.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "abi/stage.h"
#include "engine/shard.h"
#include "fabric/switch.h"
#include "support/heap_pool.h"

namespace rocemu::test {

// Zeroed memory, aligned to a page, of any ABI type.
struct Zeroed {
    explicit Zeroed(size_t bytes) : p(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
        std::memset(p, 0, (bytes + 4095) / 4096 * 4096);
    }
    ~Zeroed() { std::free(p); }
    Zeroed(const Zeroed&) = delete;
    Zeroed& operator=(const Zeroed&) = delete;
    template <typename T>
    T* as(size_t offset = 0) {
        return reinterpret_cast<T*>(p + offset);
    }
    std::byte* p;
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
    // What the agent thread does, one pass over the ring.
    void serve_agent() {
        auto& r = *agent->as<abi::AgentRing>();
        for (uint32_t n = r.done.load(); n != r.submitted.load(std::memory_order_acquire); ++n) {
            abi::AgentJob& job = r.jobs[n % abi::kAgentJobs];
            auto* va = reinterpret_cast<std::byte*>(job.va);
            job.result = static_cast<uint32_t>(abi::AgentResult::Ok);
            if (job.va < 4096) {
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
    std::unique_ptr<Zeroed> agent, stage;
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
};

struct AppQp {
    AppQp(AppSession& s, AppCq& scq, AppCq& rcq, uint32_t number, const transport::QpCaps& c)
        : session(s),
          send_cq(scq),
          recv_cq(rcq),
          qpn(number),
          caps(c),
          sq_stride(abi::sq_stride(c.max_send_sge, c.max_inline_data)),
          rq_stride(abi::rq_stride(c.max_recv_sge)),
          sq(sizeof(abi::QueueHeader) + size_t{c.max_send_wr} * sq_stride),
          rq(sizeof(abi::QueueHeader) + size_t{c.max_recv_wr} * rq_stride) {}

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
    transport::QpCaps caps;
    uint32_t sq_stride, rq_stride;
    Zeroed sq, rq;
    uint32_t sq_producer = 0, rq_producer = 0;
};

inline abi::SqWqe make_wqe(WrOpcode opcode, uint64_t wr_id = 0, uint8_t flags = send_flags::kSignaled) {
    abi::SqWqe w{};
    w.wr_id = wr_id;
    w.opcode = static_cast<uint8_t>(opcode);
    w.flags = flags;
    return w;
}

class EngineWorld {
  public:
    explicit EngineWorld(uint32_t nics = 2, engine::ShardConfig config = {}) : shard(config) { add_nics(0, nics); }
    // A second shard, with one more NIC, on the switch and the pool of `other`; both may be driven by one thread.
    explicit EngineWorld(EngineWorld& other, uint32_t first_nic, engine::ShardConfig config = {})
        : shared_pool(other.shared_pool), shared_fabric(other.shared_fabric), shard(config) {
        add_nics(first_nic, 1);
    }

    void add_nics(uint32_t first, uint32_t count) {
        for (uint32_t i = first; i < first + count; ++i) {
            const std::array<uint8_t, 6> mac{2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)};
            const uint32_t nic = fabric.add_nic(mac, 4200, pool);
            engine::DeviceSetup d;
            d.id = i;
            d.name = "nic" + std::to_string(i);
            d.port = wrap_port ? &wrap_port(fabric.port(nic, 0)) : &fabric.port(nic, 0);
            d.pool = &pool;
            shard.add_device(d);
            const engine::LocalAddress address{gid_of(i), true};
            shard.set_addresses(i, {&address, 1}, 4200);
        }
    }

    static wire::Gid gid_of(uint32_t device) { return wire::Gid::from_ipv4(0x0a000001 + device); }

    AppSession& add_session(payload::Path path = payload::Path::ProcessVm, bool stage = false) {
        auto& s = sessions.emplace_back();
        s.id = static_cast<engine::SessionId>(sessions.size());
        engine::SessionSetup setup;
        setup.id = s.id;
        setup.space.id = s.id;
        setup.space.pid = getpid();
        setup.space.path = path;
        if (path == payload::Path::Agent) {
            s.agent = std::make_unique<Zeroed>(sizeof(abi::AgentRing));
            setup.space.agent = s.agent->as<abi::AgentRing>();
        }
        if (stage) {
            s.stage = std::make_unique<Zeroed>(abi::kStageBytes);
            setup.stage = s.stage->p;
        }
        setup.wake_fd = s.wake_fd;
        setup.page = s.page.as<abi::SessionPage>();
        setup.doorbells = s.doorbells.as<abi::DoorbellBlock>();
        shard.add_session(setup);
        return s;
    }
    AppCq& add_cq(AppSession& s, uint32_t entries = 256, uint32_t channel = 0xFFFFFFFF) {
        auto& cq = cqs.emplace_back(entries);
        engine::CqSetup setup;
        setup.id = static_cast<engine::CqId>(cqs.size());
        setup.session = s.id;
        setup.header = &cq.header();
        setup.entries = entries;
        setup.channel = channel;
        setup.cookie = 0xC0 + cqs.size();
        shard.create_cq(setup);
        cq_ids[&cq] = setup.id;
        return cq;
    }
    AppQp& add_qp(AppSession& s, AppCq& scq, AppCq& rcq, uint32_t device,
                  transport::QpCaps caps = {256, 256, 4, 4, 128}, engine::SrqId srq = 0) {
        auto& q = qps.emplace_back(s, scq, rcq, static_cast<uint32_t>(0x100 + qps.size()), caps);
        q.slot_number = static_cast<uint32_t>(qps.size() * 67);
        q.device = device;
        engine::QpSetup setup;
        setup.config.qpn = q.qpn;
        setup.config.caps = caps;
        setup.config.pd = s.id;
        setup.config.reorder_packets = reorder_packets;
        setup.config.reorder_time = 150 * kMicrosecond;  // the fabric holds a frame back for 100 at most
        setup.device = device;
        setup.session = s.id;
        setup.slot = q.slot_number;
        setup.send_cq = cq_ids.at(&scq);
        setup.recv_cq = cq_ids.at(&rcq);
        setup.sq = {&q.sq_header(), q.sq.p + sizeof(abi::QueueHeader), caps.max_send_wr, q.sq_stride};
        setup.srq = srq;
        setup.config.has_srq = srq != 0;
        if (srq == 0) setup.rq = {&q.rq_header(), q.rq.p + sizeof(abi::QueueHeader), caps.max_recv_wr, q.rq_stride};
        setup.cookie = 0xA0 + qps.size();
        shard.create_qp(setup);
        return q;
    }
    int modify(AppQp& q, transport::QpAttr attr, uint32_t mask, const wire::AddressVector* route = nullptr) {
        transport::QpAttr after;
        const char* bad = nullptr;
        return shard.modify_qp(q.qpn, attr, mask, route, &bad, &after);
    }
    int connect_one(AppQp& q, const AppQp& peer, uint8_t mtu, uint8_t timeout, uint32_t psn) {
        using namespace qp_attr_mask;
        transport::QpAttr a;
        a.state = QpState::Init;
        a.access_flags = access_flags::kLocalWrite | access_flags::kRemoteWrite | access_flags::kRemoteRead |
                         access_flags::kRemoteAtomic;
        a.port_num = 1;
        if (const int e = modify(q, a, kState | kPkeyIndex | kPort | kAccessFlags)) return e;
        a = {};
        a.state = QpState::Rtr;
        a.path_mtu = mtu;
        a.dest_qpn = peer.qpn;
        a.rq_psn = psn;
        a.max_dest_rd_atomic = 16;
        a.min_rnr_timer = 12;
        a.ah.is_global = 1;
        a.ah.port_num = 1;
        wire::AddressVector route;
        route.src_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(q.device + 1)};
        route.dst_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(peer.device + 1)};
        route.src_gid = gid_of(q.device);
        route.dst_gid = gid_of(peer.device);
        if (const int e =
                modify(q, a, kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer, &route))
            return e;
        a = {};
        a.state = QpState::Rts;
        a.timeout = timeout;
        a.retry_cnt = 7;
        a.rnr_retry = 7;
        a.sq_psn = psn;
        a.max_rd_atomic = 16;
        return modify(q, a, kState | kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxQpRdAtomic);
    }
    int connect(AppQp& a, AppQp& b, uint8_t mtu = 3, uint8_t timeout = 10) {
        const int e = connect_one(a, b, mtu, timeout, 0xFFFFF0);
        return e ? e : connect_one(b, a, mtu, timeout, 0xFFFFF0);
    }
    uint32_t add_mr(AppSession& s, void* p, uint64_t length, uint32_t access = 15) {
        memory::Region r;
        r.key = next_key += 256;
        r.pd = s.id;
        r.access = access;
        r.iova = r.va = reinterpret_cast<uintptr_t>(p);
        r.length = length;
        r.space = s.id;
        shard.keys().insert(r);
        return r.key;
    }
    // Turns until `done` or until `most` turns; time moves by `step` each.
    template <typename Done>
    bool run_until(Done&& done, uint32_t most = 20000, Duration step = 2 * kMicrosecond) {
        for (uint32_t i = 0; i < most; ++i) {
            if (done()) return true;
            shard.turn(now);
            now = now + step;
            if (agents_run)
                for (auto& s : sessions)
                    if (s.agent) s.serve_agent();
        }
        return done();
    }
    void turns(uint32_t n, Duration step = 2 * kMicrosecond) {
        run_until([] { return false; }, n, step);
    }
    bool wait_cqe(AppCq& cq, abi::Cqe& out, uint32_t most = 20000) {
        return run_until([&] { return cq.poll(out); }, most);
    }
    uint64_t counter(uint32_t device, stats::Counter c) const { return shard.counters(device).get(c); }

    Instant now{kSecond};
    bool agents_run = true;
    uint32_t reorder_packets = 0;                           // of QPs made from now on
    std::function<engine::Port&(engine::Port&)> wrap_port;  // of NICs made from now on; outlives the world
    uint32_t next_key = 0x1200;
    // Memory that the shard looks at lives longer than the shard.
    std::deque<AppSession> sessions;
    std::deque<AppCq> cqs;
    std::deque<AppQp> qps;
    std::unordered_map<const AppCq*, engine::CqId> cq_ids;
    std::shared_ptr<HeapPool> shared_pool = std::make_shared<HeapPool>();
    HeapPool& pool = *shared_pool;
    std::shared_ptr<fabric::Switch> shared_fabric = std::make_shared<fabric::Switch>();
    fabric::Switch& fabric = *shared_fabric;
    engine::Shard shard;
};

inline abi::WqeSge sge(const void* p, uint32_t length, uint32_t key) {
    return {reinterpret_cast<uintptr_t>(p), length, key};
}

}  // namespace rocemu::test
