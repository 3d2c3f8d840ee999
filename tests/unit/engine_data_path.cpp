// SPDX-License-Identifier: BSD-3-Clause
// The whole data path of one shard in virtual time: WQEs posted by hand on one NIC, CQEs and memory seen on the other.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;

namespace {

struct Pair {
    explicit Pair(uint8_t mtu = 3, payload::Path path = payload::Path::ProcessVm)
        : sa(w.add_session(path)),
          sb(w.add_session(path)),
          cq_a(w.add_cq(sa)),
          cq_b(w.add_cq(sb)),
          a(w.add_qp(sa, cq_a, cq_a, 0)),
          b(w.add_qp(sb, cq_b, cq_b, 1)),
          src(1 << 20),
          dst(1 << 20) {
        REQUIRE(w.connect(a, b, mtu) == 0);
        std::mt19937 rng(7);
        for (auto& c : src) c = static_cast<uint8_t>(rng());
        key_src = w.add_mr(sa, src.data(), src.size());
        key_dst = w.add_mr(sb, dst.data(), dst.size());
    }
    EngineWorld w;
    AppSession &sa, &sb;
    AppCq &cq_a, &cq_b;
    AppQp &a, &b;
    std::vector<uint8_t> src, dst;
    uint32_t key_src = 0, key_dst = 0;
    abi::Cqe cqe;
};

WcStatus status(const abi::Cqe& e) {
    return static_cast<WcStatus>(e.status);
}

}  // namespace

TEST_CASE("a rate limit: requests keep to it, answers do not wait for it", "[engine]") {
    Pair p;
    constexpr uint32_t kBytes = 64 << 10;
    transport::QpAttr limit;
    limit.rate_limit = 80'000;  // 10 bytes a microsecond
    limit.max_burst = 4096;
    REQUIRE(p.w.modify(p.a, limit, qp_attr_mask::kRateLimit) == 0);
    const auto send = [&](AppQp& q, AppCq& cq, WrOpcode op, const void* from, uint32_t from_key, const void* to, uint32_t to_key, uint32_t bytes) {
        abi::SqWqe wqe = make_wqe(op);
        wqe.remote_addr = reinterpret_cast<uint64_t>(to);
        wqe.rkey = to_key;
        const Instant start = p.w.now;
        q.post_send(wqe, {sge(from, bytes, from_key)});
        REQUIRE(p.w.wait_cqe(cq, p.cqe));
        REQUIRE(status(p.cqe) == WcStatus::Success);
        return p.w.now - start;
    };
    const auto write = [&] { return send(p.a, p.cq_a, WrOpcode::RdmaWrite, p.src.data(), p.key_src, p.dst.data(), p.key_dst, kBytes); };
    const Duration limited = write();
    CHECK(limited > (kBytes - 6000) / 10 * kMicrosecond);
    CHECK(limited < (kBytes + 12000) / 10 * kMicrosecond);
    // What the peer reads from here is no request of this QP.
    const auto read = [&] { return send(p.b, p.cq_b, WrOpcode::RdmaRead, p.dst.data(), p.key_dst, p.src.data(), p.key_src, 8 * kBytes); };
    CHECK(read() < limited / 8);
    // Not even while requests wait.
    abi::SqWqe wqe = make_wqe(WrOpcode::RdmaWrite);
    wqe.remote_addr = reinterpret_cast<uint64_t>(p.dst.data());
    wqe.rkey = p.key_dst;
    p.a.post_send(wqe, {sge(p.src.data(), kBytes, p.key_src)});
    CHECK(read() + read() < limited / 4);
    CHECK_FALSE(p.cq_a.poll(p.cqe));
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    limit.rate_limit = limit.max_burst = 0;
    REQUIRE(p.w.modify(p.a, limit, qp_attr_mask::kRateLimit) == 0);
    CHECK(write() < limited / 4);
}

TEST_CASE("SEND of many sizes arrives with its bytes", "[engine]") {
    const auto path = GENERATE(payload::Path::ProcessVm, payload::Path::Agent);
    for (uint8_t mtu : {1, 3, 5}) {
        Pair p(mtu, path);
        uint64_t id = 0;
        for (uint32_t size : {0u, 1u, 3u, 255u, 256u, 257u, 4096u, 4097u, 65536u, 300001u}) {
            std::fill(p.dst.begin(), p.dst.end(), 0);
            p.b.post_recv(++id, {sge(p.dst.data(), static_cast<uint32_t>(p.dst.size()), p.key_dst)});
            std::vector<abi::WqeSge> sges;
            if (size != 0) sges.push_back(sge(p.src.data(), size, p.key_src));
            p.a.post_send(make_wqe(WrOpcode::Send, 1000 + id), sges);
            REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
            CHECK(status(p.cqe) == WcStatus::Success);
            CHECK(p.cqe.wr_id == id);
            CHECK(p.cqe.byte_len == size);
            CHECK(p.cqe.is_recv == 1);
            CHECK(p.cqe.qp_slot == p.b.slot_number);
            CHECK(std::memcmp(p.src.data(), p.dst.data(), size) == 0);
            CHECK((size == p.dst.size() || p.dst[size] == 0));
            REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
            CHECK(p.cqe.wr_id == 1000 + id);
            CHECK(status(p.cqe) == WcStatus::Success);
        }
        CHECK(p.w.counter(1, stats::Counter::rx_icrc_encapsulated) == 0);
        CHECK(p.w.counter(1, stats::Counter::rx_malformed) == 0);
    }
}

TEST_CASE("WRITE, WRITE with immediate and READ move the right bytes", "[engine]") {
    Pair p(3, GENERATE(payload::Path::ProcessVm, payload::Path::Agent));
    auto write = make_wqe(WrOpcode::RdmaWrite, 1);
    write.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data()) + 5;
    write.rkey = p.key_dst;
    p.a.post_send(write, {sge(p.src.data() + 1, 100, p.key_src), sge(p.src.data() + 5000, 90001, p.key_src)});
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    CHECK(status(p.cqe) == WcStatus::Success);
    CHECK(std::memcmp(p.src.data() + 1, p.dst.data() + 5, 100) == 0);
    CHECK(std::memcmp(p.src.data() + 5000, p.dst.data() + 105, 90001) == 0);

    p.b.post_recv(7, {});
    auto imm = make_wqe(WrOpcode::RdmaWriteWithImm, 2);
    imm.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data());
    imm.rkey = p.key_dst;
    imm.imm_data = 0x11223344;
    p.a.post_send(imm, {sge(p.src.data(), 3000, p.key_src)});
    REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
    CHECK(p.cqe.wr_id == 7);
    CHECK(p.cqe.imm_data == 0x11223344);
    CHECK(p.cqe.byte_len == 3000);
    CHECK((p.cqe.wc_flags & wc_flags::kWithImm) != 0);
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));

    std::vector<uint8_t> back(70000);
    const uint32_t key_back = p.w.add_mr(p.sa, back.data(), back.size());
    auto read = make_wqe(WrOpcode::RdmaRead, 3);
    read.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data()) + 105;
    read.rkey = p.key_dst;
    p.a.post_send(read, {sge(back.data(), 70000, key_back)});
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    CHECK(status(p.cqe) == WcStatus::Success);
    CHECK(std::memcmp(back.data(), p.dst.data() + 105, back.size()) == 0);
}

TEST_CASE("inline data needs no key, and 1000 messages use the queues around", "[engine]") {
    Pair p;
    uint32_t got = 0, sent = 0;
    for (uint32_t i = 0; i < 1000; ++i) {
        p.b.post_recv(i, {sge(p.dst.data() + i * 64, 64, p.key_dst)});
        std::vector<std::byte> data(1 + i % 64);
        for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<std::byte>(i + k);
        p.a.post_send(make_wqe(WrOpcode::Send, i), {}, data);
        if (i % 50 != 49) continue;
        REQUIRE(p.w.run_until([&] {
            while (p.cq_b.poll(p.cqe)) {
                CHECK(p.cqe.wr_id == got);
                CHECK(p.cqe.byte_len == 1 + got % 64);
                CHECK(p.dst[got * 64 + got % 64] == static_cast<uint8_t>(got + got % 64));
                ++got;
            }
            while (p.cq_a.poll(p.cqe)) CHECK(p.cqe.wr_id == sent++);
            return got == i + 1 && sent == i + 1;
        }));
    }
}

TEST_CASE("a frame is never lost from the pool", "[engine]") {
    HeapPool* pool = nullptr;
    {
        Pair p;
        pool = &p.w.pool;
        p.b.post_recv(1, {sge(p.dst.data(), 500000, p.key_dst)});
        p.a.post_send(make_wqe(WrOpcode::Send, 1), {sge(p.src.data(), 500000, p.key_src)});
        p.w.turns(3);
        CHECK(pool->out() > 0);
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
        p.w.turns(100);
        // What remains is the stock of the two devices' caches.
        CHECK(pool->out() <= 2 * 128);
        CHECK(p.w.shard.destroy_qp(p.a.qpn));
        CHECK(p.w.shard.destroy_qp(p.b.qpn));
    }
}

TEST_CASE("a slow agent and repeated packets leave no frame behind", "[engine]") {
    Pair p(3, payload::Path::Agent);
    fabric::Impairments bad;
    bad.seed = 5;
    bad.duplicate_ppm = 300000;
    bad.drop_ppm = 20000;
    p.w.fabric.set_impairments(0, bad);
    for (int i = 0; i < 60; ++i) {
        p.b.post_recv(1, {sge(p.dst.data(), 200000, p.key_dst)});
        p.a.post_send(make_wqe(WrOpcode::Send, 1), {sge(p.src.data(), 100000, p.key_src)});
        p.w.agents_run = false;
        for (int turn = 0; turn < 20000 && !p.cq_b.poll(p.cqe); ++turn) {
            p.w.turns(1);
            if (turn % 7 == 0)
                for (auto& s : p.w.sessions) s.serve_agent();
        }
        REQUIRE(status(p.cqe) == WcStatus::Success);
        p.w.agents_run = true;
        REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    }
    p.w.turns(1000);
    CHECK(p.w.pool.out() <= 2 * 128);
}

TEST_CASE("an ACK promises receives that no packet has needed yet", "[engine][9.7.7.2]") {
    Pair p;
    for (uint32_t i = 0; i < 100; ++i) p.b.post_recv(i, {sge(p.dst.data(), 100, p.key_dst)});
    const WrOpcode first = GENERATE(WrOpcode::RdmaWrite, WrOpcode::RdmaRead, WrOpcode::AtomicFetchAndAdd);
    auto wqe = make_wqe(first);
    wqe.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data());
    wqe.rkey = p.key_dst;
    p.a.post_send(wqe, {sge(p.src.data(), 8, p.key_src)});
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe));
    CHECK(status(p.cqe) == WcStatus::Success);
    // The requester knows of them: nothing has to wait for the answer to the first.
    const uint64_t before = p.w.counter(0, stats::Counter::tx_packets);
    for (uint32_t i = 0; i < 10; ++i) p.a.post_send(make_wqe(WrOpcode::Send), {sge(p.src.data(), 10, p.key_src)});
    p.w.turns(1);
    CHECK(p.w.counter(0, stats::Counter::tx_packets) == before + 10);
}

TEST_CASE("a READ of memory that is not mapped is refused at once", "[engine][9.7.5.2.6]") {
    const auto path = GENERATE(payload::Path::ProcessVm, payload::Path::Agent);
    Pair p(3, path);
    auto wqe = make_wqe(WrOpcode::RdmaRead);
    wqe.remote_addr = 0x800;  // the page at 0 is nobody's
    wqe.rkey = p.w.add_mr(p.sb, reinterpret_cast<void*>(0x800), 2048);
    p.a.post_send(wqe, {sge(p.src.data(), 2048, p.key_src)});
    REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe, 200));
    CHECK(status(p.cqe) == WcStatus::RemOpErr);
    CHECK(p.w.counter(0, stats::Counter::local_ack_timeout_err) == 0);
}

TEST_CASE("faults of the fabric lose no byte and are counted", "[engine]") {
    const auto path = GENERATE(payload::Path::ProcessVm, payload::Path::Agent);
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        Pair p(3, path);
        fabric::Impairments bad;
        bad.seed = seed;
        bad.drop_ppm = 10000;
        bad.duplicate_ppm = bad.reorder_ppm = bad.corrupt_ppm = 5000;
        p.w.fabric.set_impairments(0, bad);
        p.w.fabric.set_impairments(1, bad);
        std::mt19937 rng(static_cast<uint32_t>(seed));
        for (uint32_t i = 0; i < 40; ++i) {
            const uint32_t size = rng() % 100000, at = rng() % 100000;
            std::fill(p.dst.begin(), p.dst.end(), 0xEE);
            const auto op = std::array{WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead}[rng() % 3];
            auto wqe = make_wqe(op, i);
            wqe.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data());
            wqe.rkey = p.key_dst;
            if (op == WrOpcode::Send) p.b.post_recv(i, {sge(p.dst.data(), 200000, p.key_dst)});
            if (op == WrOpcode::RdmaRead) {
                for (uint32_t k = 0; k < size; ++k) p.dst[k] = static_cast<uint8_t>(rng());
                p.a.post_send(wqe, {sge(p.src.data() + 500000, size, p.key_src)});
            } else {
                p.a.post_send(wqe, {sge(p.src.data() + at, size, p.key_src)});
            }
            REQUIRE(p.w.wait_cqe(p.cq_a, p.cqe, 2'000'000));
            REQUIRE(status(p.cqe) == WcStatus::Success);
            if (op == WrOpcode::RdmaRead) CHECK(std::memcmp(p.src.data() + 500000, p.dst.data(), size) == 0);
            if (op != WrOpcode::RdmaRead) {
                CHECK(std::memcmp(p.src.data() + at, p.dst.data(), size) == 0);
                CHECK(p.dst[size] == 0xEE);
            }
            if (op == WrOpcode::Send) REQUIRE(p.w.wait_cqe(p.cq_b, p.cqe));
        }
        uint64_t corrupted = 0, dropped = 0, seen = 0;
        for (uint32_t nic : {0u, 1u}) {
            const auto& c = p.w.fabric.port(nic, 0).counters();
            corrupted += c.get(stats::Counter::fault_corrupted);
            dropped += c.get(stats::Counter::fault_dropped);
            for (auto r : {stats::Counter::rx_icrc_encapsulated, stats::Counter::rx_malformed,
                           stats::Counter::rx_no_pkey_match, stats::Counter::rx_other})
                seen += p.w.counter(nic, r);
        }
        CHECK(dropped > 0);
        CHECK(corrupted > 0);
        // Bits that the ICRC does not cover (TTL, UDP checksum) pass; nothing else is dropped by the receivers.
        CHECK(seen <= corrupted);
    }
}
