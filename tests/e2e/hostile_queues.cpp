// SPDX-License-Identifier: BSD-3-Clause
// Attacks through shared memory: a session with connected queue pairs whose owner writes nonsense into everything it
// shares, registers ranges that cannot be, uses keys of others, and leaves in the middle. See hostile.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/agent_ring.h"
#include "abi/queues.h"
#include "abi/session_page.h"
#include "abi/stage.h"
#include "base/verbs_types.h"
#include "hostile.h"
#include "provider/connection.h"

namespace hostile {

using namespace rocemu;
using provider::FdList, provider::KeepFds;

namespace {

constexpr uint32_t kTimeoutMs = 5000;

struct Region {
    std::byte* base = nullptr;
    size_t bytes = 0;
};

struct Queue {
    abi::QueueHeader* header = nullptr;
    std::byte* slots = nullptr;
    uint32_t entries = 0, stride = 0;
};

struct Victim {  // a queue pair of the attacker
    uint32_t qpn = 0, slot = 0, shard = 0;
    Queue sq, rq, cq;
    uint32_t context = 0;
    uint8_t gid[16] = {};
    uint32_t gid_index = 0;
};

class Attacker {
  public:
    explicit Attacker(Random& random) : random_(random), buffer_(target()) {}
    ~Attacker() {
        for (const Region& r : regions_)
            if (r.base != nullptr) munmap(r.base, r.bytes);
        for (const int fd : fds_) close(fd);
    }
    Outcome begin(const std::string& socket);
    bool make_pair();
    void storm();

  private:
    // The peer's packets land here. It outlives the session: who hangs up in the middle of traffic is written to for a
    // moment longer.
    static std::vector<uint8_t>& target() {
        static std::vector<uint8_t> memory(64 * 1024);
        return memory;
    }
    bool map(uint32_t region, int fd, uint64_t bytes);
    Queue view(const abi::QueueRef& ref, uint64_t offset);
    bool make_qp(uint32_t device, Victim& v);
    bool modify(Victim& v, const Victim& peer);
    void scribble_wqe(Victim& v, uint32_t index);
    void scribble_indices(Victim& v);
    void ring(const Victim& v, bool honest);
    void scribble_agent();
    void try_to_truncate();
    void abuse_calls();
    uint64_t any_address();
    uint32_t any_key() { return keys_.empty() || random_.one_in(2) ? static_cast<uint32_t>(random_.nasty()) : keys_[random_.below(static_cast<uint32_t>(keys_.size()))]; }

    Random& random_;
    provider::Connection connection_;
    abi::HelloReply hello_;
    std::vector<Region> regions_;
    std::vector<int> fds_;
    std::vector<uint32_t> keys_;
    std::vector<uint8_t>& buffer_;
    uint32_t pds_[2] = {};
    uint32_t honesty_ = 0;  // right WQEs in a hundred
    Victim victims_[2];
};

Outcome Attacker::begin(const std::string& socket) {
    if (connection_.connect(socket.c_str(), kTimeoutMs) != 0) return Outcome::NoDaemon;
    FdList fds;
    int error = 0;
    // Sometimes only the agent is offered, so that the daemon depends on a ring that nobody serves.
    const uint64_t features = (random_.one_in(4) ? abi::kFeatureAgent : abi::kFeatureAgent | abi::kFeatureProcessVm) |
                              (random_.one_in(4) ? uint64_t{0} : uint64_t{abi::kFeatureCapture | abi::kFeatureMapped});
    if (connection_.hello(false, features, hello_, fds, &error) == provider::HelloFailure::None)
        map(0, fds.take(0), hello_.region0_bytes);
    return Outcome::Done;
}

bool Attacker::map(uint32_t region, int fd, uint64_t bytes) {
    if (fd < 0 || region > 4096) return false;
    if (regions_.size() <= region) regions_.resize(region + 1);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fds_.push_back(fd);
    if (base == MAP_FAILED) return false;
    if (regions_[region].base != nullptr) munmap(regions_[region].base, regions_[region].bytes);
    regions_[region] = {static_cast<std::byte*>(base), bytes};
    return true;
}

Queue Attacker::view(const abi::QueueRef& ref, uint64_t offset) {
    const uint64_t bytes = sizeof(abi::QueueHeader) + uint64_t{ref.entries} * ref.stride;
    if (ref.region >= regions_.size() || regions_[ref.region].base == nullptr || ref.entries == 0 ||
        offset + bytes > regions_[ref.region].bytes)
        return {};
    std::byte* at = regions_[ref.region].base + offset;
    return {reinterpret_cast<abi::QueueHeader*>(at), at + sizeof(abi::QueueHeader), ref.entries, ref.stride};
}

bool Attacker::make_qp(uint32_t device, Victim& v) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
    fds_.push_back(pair[0]);
    abi::OpenContextReply context;
    const bool opened = connection_.call(abi::OpenContextRequest{device}, context, {&pair[1], 1}) == 0;
    close(pair[1]);
    if (!opened) return false;
    v.context = context.context;
    abi::QueryGidReply gids;
    if (connection_.call(abi::QueryGidRequest{v.context, 1, 0}, gids) != 0) return false;
    for (uint32_t i = 0; i < std::min(gids.count, abi::kGidsPerReply); ++i)
        if (gids.gids[i].type == static_cast<uint32_t>(abi::GidType::RoceV2)) {
            std::memcpy(v.gid, gids.gids[i].gid, sizeof v.gid);
            v.gid_index = gids.gids[i].index;
        }
    abi::AllocPdReply pd;
    if (connection_.call(abi::AllocPdRequest{v.context}, pd) != 0) return false;
    pds_[device % 2] = pd.pd;
    abi::RegMrRequest mr;
    mr.pd = pd.pd;
    mr.access = 0xf;
    mr.va = mr.iova = reinterpret_cast<uint64_t>(buffer_.data());
    mr.length = buffer_.size();
    abi::RegMrReply key;
    if (connection_.call(mr, key) == 0) keys_.push_back(key.key);

    abi::CreateCqRequest cq;
    cq.context = v.context;
    cq.cqe = 1 + random_.below(64);
    abi::CreateCqReply cq_reply;
    FdList cq_fds, qp_fds;
    KeepFds keep_cq(cq_fds), keep_qp(qp_fds);
    if (connection_.call(cq, cq_reply, {}, &keep_cq) != 0) return false;
    if (cq_reply.new_region_bytes != 0) map(cq_reply.queue.region, cq_fds.take(0), cq_reply.new_region_bytes);
    v.cq = view(cq_reply.queue, cq_reply.queue.offset);

    abi::CreateQpRequest qp;
    qp.pd = pd.pd;
    qp.send_cq = qp.recv_cq = cq_reply.cq;
    qp.type = static_cast<uint32_t>(QpType::Rc);
    qp.max_send_wr = 1 + random_.below(64);
    qp.max_recv_wr = 1 + random_.below(64);
    qp.max_send_sge = 1 + random_.below(8);
    qp.max_recv_sge = 1 + random_.below(8);
    qp.max_inline_data = random_.below(256);
    abi::CreateQpReply reply;
    if (connection_.call(qp, reply, {}, &keep_qp) != 0) return false;
    if (reply.new_region_bytes != 0) map(reply.sq.region, qp_fds.take(0), reply.new_region_bytes);
    v.qpn = reply.qpn;
    v.slot = reply.slot;
    v.shard = reply.shard;
    v.sq = view(reply.sq, reply.sq.offset);
    v.rq = view(reply.rq, reply.rq.offset);
    return v.sq.header != nullptr && v.rq.header != nullptr && v.cq.header != nullptr;
}

bool Attacker::modify(Victim& v, const Victim& peer) {
    using namespace qp_attr_mask;
    abi::ModifyQpRequest r;
    abi::ModifyQpReply reply;
    r.qpn = v.qpn;
    r.mask = kState | kPkeyIndex | kPort | kAccessFlags;
    r.attr.state = 1;
    r.attr.port_num = 1;
    r.attr.access_flags = 0xf;
    if (connection_.call(r, reply) != 0) return false;
    r.mask = kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer;
    r.attr.state = 2;
    std::memcpy(r.attr.dgid, peer.gid, sizeof r.attr.dgid);
    r.attr.is_global = 1;
    r.attr.sgid_index = static_cast<uint8_t>(v.gid_index);
    r.attr.hop_limit = 64;
    r.attr.ah_port = 1;
    r.attr.path_mtu = 1 + random_.below(3);
    r.attr.dest_qpn = random_.one_in(8) ? random_.below(1 << 24) : peer.qpn;
    r.attr.max_dest_rd_atomic = 1;
    if (connection_.call(r, reply) != 0) return false;
    r.mask = kState | kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxQpRdAtomic;
    r.attr.state = 3;
    r.attr.timeout = 8 + random_.below(6);
    r.attr.retry_cnt = random_.below(8);
    r.attr.rnr_retry = random_.below(8);
    r.attr.max_rd_atomic = 1;
    return connection_.call(r, reply) == 0;
}

bool Attacker::make_pair() {
    if (regions_.empty() || hello_.devices == 0) return false;
    for (uint32_t i = 0; i < 2; ++i)
        if (!make_qp(i % hello_.devices, victims_[i])) return false;
    return modify(victims_[0], victims_[1]) && modify(victims_[1], victims_[0]);
}

uint64_t Attacker::any_address() {
    switch (random_.below(4)) {
        case 0: return random_.nasty();
        case 1: return ~uint64_t{0} - random_.below(1 << 16);
        default: return reinterpret_cast<uint64_t>(buffer_.data()) + random_.below(static_cast<uint32_t>(buffer_.size()) + 64) - 32;
    }
}

void Attacker::scribble_wqe(Victim& v, uint32_t index) {
    std::byte* slot = v.sq.slots + size_t{index & (v.sq.entries - 1)} * v.sq.stride;
    if (random_.one_in(6)) {
        random_.fill(slot, v.sq.stride);
        return;
    }
    abi::SqWqe w{};
    w.wr_id = random_.next();
    if (honesty_ > random_.below(100)) {
        // A right one, so that the wrong ones meet a queue pair that works.
        constexpr WrOpcode kRight[] = {WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::RdmaWriteWithImm};
        const uint32_t me = &v == &victims_[0] ? 0 : 1;
        w.opcode = static_cast<uint8_t>(kRight[random_.below(keys_.size() < 2 ? 1 : 3)]);
        w.flags = 2;
        w.num_sge = 1;
        w.rkey = keys_.size() < 2 ? 0 : keys_[1 - me];
        w.remote_addr = reinterpret_cast<uint64_t>(buffer_.data());
        const abi::WqeSge sge{w.remote_addr + 32768, random_.below(32768), keys_.empty() ? 0 : keys_[std::min<size_t>(me, keys_.size() - 1)]};
        std::memcpy(slot, &w, sizeof w);
        std::memcpy(slot + sizeof w, &sge, sizeof sge);
        return;
    }
    // Nearly right, so that it gets far.
    w.opcode = static_cast<uint8_t>(random_.one_in(5) ? random_.next() : random_.below(7));
    w.flags = static_cast<uint8_t>(random_.next());
    const uint32_t room = (v.sq.stride - sizeof w) / sizeof(abi::WqeSge);
    w.num_sge = static_cast<uint8_t>(random_.one_in(6) ? random_.next() : random_.below(room + 1));
    w.payload_kind = static_cast<uint8_t>(random_.one_in(6) ? random_.next() : random_.below(3));
    w.stage_ref = random_.one_in(2) ? 0 : random_.one_in(2) ? abi::kStageReady | random_.below(4) << 20 : random_.next();
    w.length = static_cast<uint32_t>(random_.one_in(2) ? random_.nasty() : random_.below(v.sq.stride));
    w.rkey = any_key();
    w.remote_addr = any_address();
    w.compare_add = random_.next();
    std::memcpy(slot, &w, sizeof w);
    for (uint32_t i = 0; i < std::min<uint32_t>(room, w.num_sge); ++i) {
        const abi::WqeSge sge{any_address(), static_cast<uint32_t>(random_.one_in(3) ? random_.nasty() : random_.below(70000)), any_key()};
        std::memcpy(slot + sizeof w + i * sizeof sge, &sge, sizeof sge);
    }
}

void Attacker::scribble_indices(Victim& v) {
    const Queue* queues[] = {&v.sq, &v.rq, &v.cq};
    const Queue& q = *queues[random_.below(3)];
    switch (random_.below(5)) {
        case 0: q.header->producer = static_cast<uint32_t>(random_.nasty()); break;
        case 1: q.header->consumer = static_cast<uint32_t>(random_.nasty()); break;
        case 2: q.header->armed = static_cast<uint32_t>(random_.nasty()); break;
        case 3: q.header->retired = static_cast<uint32_t>(random_.nasty()); break;
        default: random_.fill(q.slots, std::min<size_t>(size_t{q.entries} * q.stride, 4096)); break;
    }
}

void Attacker::ring(const Victim& v, bool honest) {
    auto* bells = reinterpret_cast<abi::DoorbellBlock*>(regions_[0].base + hello_.doorbells_offset);
    abi::DoorbellBlock& b = bells[v.shard < hello_.shards ? v.shard : 0];
    if (honest) {
        b.words[v.slot / 64].fetch_or(1ull << v.slot % 64);
        b.summary[v.slot / 4096].fetch_or(1ull << v.slot / 64 % 64);
        b.top.fetch_or(1ull << v.slot / 4096);
        return;
    }
    b.words[random_.below(static_cast<uint32_t>(std::size(b.words)))] = random_.next();
    b.summary[random_.below(16)] = random_.next();
    b.top = random_.next();
    b.sleeping = static_cast<uint32_t>(random_.next());
}

void Attacker::scribble_agent() {
    if (hello_.agent_offset == 0) return;
    auto* rings = reinterpret_cast<abi::AgentRing*>(regions_[0].base + hello_.agent_offset);
    abi::AgentRing& r = rings[random_.below(hello_.shards)];
    // Answers to jobs that may be there, without having done them, or answers to jobs that were never given.
    for (abi::AgentJob& job : r.jobs) job.result = random_.one_in(2) ? 0 : static_cast<uint32_t>(random_.next());
    r.done = random_.one_in(2) ? r.submitted.load() : static_cast<uint32_t>(random_.nasty());
    if (random_.one_in(4)) random_.fill(&r.jobs[random_.below(abi::kAgentJobs)], sizeof(abi::AgentJob));
    if (random_.one_in(4)) r.submitted = static_cast<uint32_t>(random_.nasty());
    auto& page = *reinterpret_cast<abi::SessionPage*>(regions_[0].base);
    page.cq_sleepers = static_cast<uint32_t>(random_.nasty());
    page.heartbeat = static_cast<uint32_t>(random_.next());
}

void Attacker::try_to_truncate() {
    for (const int fd : fds_) {
        struct stat st{};
        if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        // Sealed: each of these must fail, and where it does not the daemon would take a SIGBUS.
        [[maybe_unused]] int rc = ftruncate(fd, random_.below(8192));
        rc = ftruncate(fd, st.st_size / 2);
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size);
    }
}

void Attacker::abuse_calls() {
    abi::RegMrRequest mr;
    mr.pd = random_.one_in(2) ? pds_[0] : static_cast<uint32_t>(random_.nasty());
    mr.access = random_.below(64);
    mr.va = random_.nasty();
    mr.length = random_.nasty();
    mr.iova = random_.nasty();
    abi::RegMrReply key;
    if (connection_.call(mr, key) == 0) keys_.push_back(key.key);
    const uint32_t with_file =
        register_file(connection_, random_, pds_[random_.below(2)], buffer_, fds_.empty() ? 0 : fds_[0], any_key());
    if (with_file != 0) keys_.push_back(with_file);
    abi::DeregMrReply gone;
    if (random_.one_in(3)) connection_.call(abi::DeregMrRequest{any_key()}, gone);
    if (random_.one_in(8)) {
        abi::ModifyQpRequest m;
        abi::ModifyQpReply reply;
        m.qpn = random_.one_in(2) ? victims_[0].qpn : random_.below(1 << 24);
        m.mask = static_cast<uint32_t>(random_.next());
        random_.fill(&m.attr, sizeof m.attr);
        connection_.call(m, reply);
    }
    if (random_.one_in(16)) {
        abi::DestroyQpReply reply;
        connection_.call(abi::DestroyQpRequest{random_.one_in(2) ? victims_[1].qpn : random_.below(1 << 24)}, reply);
    }
}

void Attacker::storm() {
    honesty_ = random_.one_in(3) ? 0 : 80 + random_.below(21);
    for (uint32_t round = 0; round < 5 + random_.below(40); ++round) {
        for (Victim& v : victims_) {
            const uint32_t from = v.sq.header->consumer.load();
            const uint32_t count = random_.below(v.sq.entries + 1);
            for (uint32_t i = 0; i < count; ++i) scribble_wqe(v, from + i);
            v.sq.header->producer.store(from + count, std::memory_order_release);
            random_.fill(v.rq.slots, std::min<size_t>(size_t{v.rq.entries} * v.rq.stride, 2048));
            v.rq.header->producer.fetch_add(random_.below(v.rq.entries));
            v.cq.header->consumer.store(v.cq.header->producer.load());
            ring(v, true);
            if (random_.one_in(5)) scribble_indices(v);
            if (random_.one_in(5)) ring(v, false);
        }
        if (random_.one_in(3)) scribble_agent();
        if (random_.one_in(4)) abuse_calls();
        if (random_.one_in(10)) try_to_truncate();
        if (random_.one_in(30)) return;  // leaves with everything in flight
        usleep(random_.below(3000));
    }
}

}  // namespace

Outcome scribble(const std::string& socket, Random& random) {
    Attacker attacker(random);
    const Outcome outcome = attacker.begin(socket);
    if (outcome == Outcome::Done && attacker.make_pair()) attacker.storm();
    return outcome;
}

}  // namespace hostile
