// SPDX-License-Identifier: BSD-3-Clause
// EngineWorld: a shard with NICs on the embedded switch, driven in virtual time, and applications (app_queues.h). No
// EAL, no control, no provider.
#pragma once

#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/shard.h"
#include "fabric/switch.h"
#include "net/multicast.h"
#include "support/app_queues.h"
#include "support/heap_pool.h"

namespace rocemu::test {

class EngineWorld {
  public:
    // `shards`: how many the NICs have; the others are made with the third constructor.
    explicit EngineWorld(uint32_t nics = 2, engine::ShardConfig config = {}, uint32_t shards = 1)
        : nic_shards(shards), shard(config) {
        add_nics(0, nics);
    }
    // A second shard, with one more NIC, on the switch and the pool of `other`; both may be driven by one thread.
    explicit EngineWorld(EngineWorld& other, uint32_t first_nic, engine::ShardConfig config = {})
        : shared_pool(other.shared_pool), shared_fabric(other.shared_fabric), shard(config) {
        add_nics(first_nic, 1);
    }
    // Shard `config.index` of the NICs of `other`.
    EngineWorld(EngineWorld& other, engine::ShardConfig config)
        : nic_shards(other.nic_shards),
          index(config.index),
          shared_pool(other.shared_pool),
          shared_fabric(other.shared_fabric),
          shard(config) {
        for (uint32_t nic = 0; nic < other.nics; ++nic) add_device(nic);
    }

    void add_nics(uint32_t first, uint32_t count) {
        for (uint32_t i = first; i < first + count; ++i) {
            const std::array<uint8_t, 6> mac{2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)};
            if (fabric.add_nic(mac, 4200, pool) != i) throw std::logic_error("NICs are numbered in order");
            add_device(i);
        }
        nics = first + count;
    }
    void add_device(uint32_t i) {
        engine::DeviceSetup d;
        d.id = i;
        d.name = "nic" + std::to_string(i);
        auto& port = fabric.port(i, index);
        d.port = wrap_port ? &wrap_port(port) : &port;
        d.pool = &pool;
        shard.add_device(d);
        shard.set_port_state(i, {{2, 0, 0, 0, 0, static_cast<uint8_t>(i + 1)}, 4200, {{gid_of(i), true}}});
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
        if (receive_stage) {
            s.receive_stage = std::make_unique<Zeroed>(sizeof(abi::ReceiveStage));
            setup.space.receive_stage = s.receive_stage->as<abi::ReceiveStage>();
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
        const uint32_t number =
            next_qpn != 0 ? std::exchange(next_qpn, 0) : static_cast<uint32_t>(0x100 + qps.size() * nic_shards + index);
        auto& q = qps.emplace_back(s, scq, rcq, number, caps, queues.get());
        q.slot_number = static_cast<uint32_t>(qps.size() * slot_step % 65521);  // a prime: no two of the same
        q.device = device;
        engine::QpSetup setup;
        setup.config.qpn = q.qpn;
        setup.config.type = q.type = qp_type;
        setup.config.max_frame = 4200 + 18;
        setup.config.caps = caps;
        setup.config.pd = s.id;
        setup.config.reorder_packets = reorder_packets;
        setup.config.dma_window = dma_window;
        setup.config.reorder_time = 150 * kMicrosecond;  // the fabric holds a frame back for 100 at most
        setup.device = device;
        setup.session = s.id;
        setup.slot = q.slot_number;
        setup.send_cq = cq_ids.at(&scq);
        setup.recv_cq = cq_ids.at(&rcq);
        setup.sq = {&q.sq_header(), q.sq.p + sizeof(abi::QueueHeader), caps.max_send_wr, q.sq_stride};
        setup.srq = srq;
        setup.config.has_srq = srq != 0;
        setup.blocks_own_groups = blocks_own_groups;
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
        // A14: an XRC initiator has no responder, a target no requester.
        const bool rc = q.type == QpType::Rc;
        const uint32_t responder = rc || q.type == QpType::XrcRecv ? kMaxDestRdAtomic | kMinRnrTimer : 0;
        const uint32_t requester = rc || q.type == QpType::XrcSend ? kTimeout | kRetryCnt | kRnrRetry | kMaxQpRdAtomic
                                   : q.type == QpType::XrcRecv     ? kTimeout
                                                                   : 0;
        if (const int e = modify(q, a, kState | kPkeyIndex | kPort | kAccessFlags)) return e;
        a = {};
        a.state = QpState::Rtr;
        a.path_mtu = mtu;
        a.dest_qpn = peer.qpn;
        a.rq_psn = psn;
        a.max_dest_rd_atomic = 16;
        a.min_rnr_timer = min_rnr_timer;
        a.ah.is_global = 1;
        a.ah.port_num = 1;
        const wire::AddressVector path = route(q.device, peer.device);
        if (const int e = modify(q, a, kState | kAv | kPathMtu | kDestQpn | kRqPsn | responder, &path)) return e;
        a = {};
        a.state = QpState::Rts;
        a.timeout = timeout;
        a.retry_cnt = 7;
        a.rnr_retry = 7;
        a.sq_psn = psn;
        a.max_rd_atomic = 16;
        return modify(q, a, kState | kSqPsn | requester);
    }
    // A datagram QP up to RTS.
    int activate(AppQp& q, uint32_t qkey = kUdQkey) {
        using namespace qp_attr_mask;
        transport::QpAttr a;
        a.port_num = 1;
        a.qkey = qkey;
        for (const auto& [state, mask] :
             {std::pair{QpState::Init, kPkeyIndex | kPort | kQkey}, {QpState::Rtr, 0u}, {QpState::Rts, kSqPsn}}) {
            a.state = state;
            if (const int e = modify(q, a, kState | mask)) return e;
        }
        return 0;
    }
    // Headers from a NIC to another one, or to a group.
    static wire::AddressVector route(uint32_t from, uint32_t to) {
        wire::AddressVector r;
        r.src_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(from + 1)};
        r.dst_mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(to + 1)};
        r.src_gid = gid_of(from);
        r.dst_gid = gid_of(to);
        return r;
    }
    static wire::AddressVector route(uint32_t from, const wire::Gid& group) {
        wire::AddressVector r = route(from, 0);
        r.dst_mac = net::multicast_mac(group);
        r.dst_gid = group;
        return r;
    }
    // An address handle of the session; what it is called in WQEs.
    uint32_t add_ah(AppSession& s, const wire::AddressVector& to, uint32_t device) {
        engine::AddressRecord record;
        record.headers = wire::HeaderTemplate(to);
        record.pd = s.id;
        record.device = device;
        record.destination = to.dst_gid;
        shard.create_ah(s.id, ++next_ah, record);
        return next_ah;
    }
    AppSrq& add_srq(AppSession& s, uint32_t entries, uint32_t max_sge = 4) {
        auto& srq = srqs.emplace_back(entries, max_sge);
        engine::SrqSetup setup;
        setup.id = srq.id = static_cast<engine::SrqId>(srqs.size());
        setup.session = s.id;
        setup.queue = srq.view();
        setup.max_sge = max_sge;
        setup.cookie = srq.cookie = 0x5100 + srq.id;
        shard.create_srq(setup);
        return srq;
    }
    int connect(AppQp& a, AppQp& b, uint8_t mtu = 3, uint8_t timeout = 10) {
        const int e = connect_one(a, b, mtu, timeout, 0xFFFFF0);
        return e ? e : connect_one(b, a, mtu, timeout, 0xFFFFF0);
    }
    // `mapped`: the shard reaches it directly (here: at the same address).
    uint32_t add_mr(AppSession& s, void* p, uint64_t length, uint32_t access = 15, bool mapped = false) {
        memory::Region r;
        r.key = next_key += 256;
        r.pd = s.id;
        r.access = access;
        r.iova = r.va = reinterpret_cast<uintptr_t>(p);
        r.length = length;
        r.space = s.id;
        r.mapped = mapped;
        if (mapped) shard.map_region(s.id, r.key, static_cast<std::byte*>(p), r.va, length);
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
                    if (s.agent && s.agent_runs) s.serve_agent();
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
    bool receive_stage = false;  // of sessions made from now on: SENDs to them are deferred
    // Of QPs made from now on.
    QpType qp_type = QpType::Rc;
    uint32_t next_qpn = 0;  // of the next one alone; 0: one that was never used
    uint32_t reorder_packets = 0;
    uint32_t dma_window = 256;
    uint32_t slot_step = 67;  // control gives slots one after the other: 1
    bool blocks_own_groups = false;
    uint8_t min_rnr_timer = 12;  // 0.64 ms; of those that are connected from now on
    std::function<engine::Port&(engine::Port&)> wrap_port;  // of NICs made from now on; outlives the world
    static constexpr uint32_t kUdQkey = 0x11111111;
    uint32_t next_key = 0x1200, next_ah = 0;
    uint32_t nics = 0, nic_shards = 1, index = 0;
    // Memory that the shard looks at lives longer than the shard.
    std::unique_ptr<QueueRegion> queues;  // of QPs made from now on; nullptr: each queue has pages of its own
    std::deque<AppSession> sessions;
    std::deque<AppCq> cqs;
    std::deque<AppSrq> srqs;
    std::deque<AppQp> qps;
    std::unordered_map<const AppCq*, engine::CqId> cq_ids;
    std::shared_ptr<HeapPool> shared_pool = std::make_shared<HeapPool>();
    HeapPool& pool = *shared_pool;
    std::shared_ptr<fabric::Switch> shared_fabric = std::make_shared<fabric::Switch>(nic_shards);
    fabric::Switch& fabric = *shared_fabric;
    engine::Shard shard;
};

}  // namespace rocemu::test
