// SPDX-License-Identifier: BSD-3-Clause
// Long messages through a port that puts other frames between their packets, and loses, repeats, damages and swaps some:
// whatever ends a run of packets that follow each other, the messages arrive, and each frame that is not of them is dropped
// for its own reason.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

#include "support/engine_world.h"
#include "wire/ipv4.h"

using namespace rocemu;
using namespace rocemu::test;
using stats::Counter;

namespace {

constexpr size_t kIp = 14, kBth = kIp + 20 + 8;

void fix_ip_checksum(engine::Frame& f) {
    store_be<uint16_t>(f.data + kIp + 10, 0);
    store_be<uint16_t>(f.data + kIp + 10, wire::Ipv4Header::compute_checksum(f.data + kIp));
}

// What is done to a copy of a good frame, and how it is counted then.
struct Change {
    Counter counted;
    void (*apply)(engine::Frame&);
};
const std::array kChanges{
    // With options its UDP ports are elsewhere.
    Change{Counter::rx_other, [](engine::Frame& f) { f.data[kIp] = std::byte{0x46}; fix_ip_checksum(f); }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.data[kIp + 6] = std::byte{0x20}; fix_ip_checksum(f); }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.data[kIp + 10] ^= std::byte{1}; }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.length -= 4; }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.data[kIp + 20 + 5] ^= std::byte{4}; }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.data[kBth + 1] |= std::byte{1}; }},
    Change{Counter::rx_malformed, [](engine::Frame& f) { f.data[kBth] = std::byte{0x1a}; }},
    Change{Counter::rx_no_pkey_match, [](engine::Frame& f) { f.data[kBth + 3] = std::byte{0x12}; }},
    Change{Counter::rx_icrc_encapsulated, [](engine::Frame& f) { f.data[f.length - 9] ^= std::byte{1}; }},
    Change{Counter::rx_icrc_encapsulated, [](engine::Frame& f) { f.data[kBth + 11] ^= std::byte{1}; }},
    Change{Counter::rx_icrc_encapsulated, [](engine::Frame& f) { f.data[kBth + 7] ^= std::byte{8}; }},
    Change{Counter::rx_other, [](engine::Frame& f) { f.data[5] ^= std::byte{0x40}; }},
    Change{Counter::rx_other, [](engine::Frame& f) { f.data[12] = std::byte{0x86}; f.data[13] = std::byte{0xde}; f.data[kIp] = std::byte{0x60}; }},
    // Tagged: the ICRC is right, but the connection has no VLAN.
    Change{Counter::rx_wrong_peer, [](engine::Frame& f) {
               std::memmove(f.data + 16, f.data + 12, f.length - 12);
               store_be<uint32_t>(f.data + 12, 0x81000005);
               f.length += 4;
           }},
};

class MeddlingPort final : public engine::Port {
  public:
    MeddlingPort(engine::Port& real, engine::FramePool& pool) : real_(real), pool_(pool) {}
    size_t rx_burst(Instant now, std::span<engine::Frame> frames) override {
        std::array<engine::Frame, 16> fresh;
        const size_t got = real_.rx_burst(now, fresh);
        for (size_t i = 0; i < got; ++i) meddle(fresh[i]);
        const size_t most = 1 + random_() % frames.size();
        size_t n = 0;
        for (; n < most && !waiting_.empty(); waiting_.pop_front()) frames[n++] = waiting_.front();
        return n;
    }
    size_t tx_burst(Instant now, std::span<engine::Frame> frames) override { return real_.tx_burst(now, frames); }
    [[nodiscard]] Instant next_deadline() const override { return real_.next_deadline(); }
    [[nodiscard]] engine::PortInfo info() const override { return real_.info(); }
    ~MeddlingPort() override {
        for (engine::Frame& f : waiting_) pool_.free({&f, 1});
    }

    bool on = false;
    std::map<Counter, uint64_t> put;  // frames that must be counted so

  private:
    engine::Frame copy(const engine::Frame& f) {
        engine::Frame c;
        if (!pool_.alloc({&c, 1})) std::abort();
        std::memcpy(c.data, f.data, f.length);
        c.length = f.length;
        return c;
    }
    void meddle(engine::Frame f) {
        const bool long_one = on && f.length > 100;
        if (long_one && random_() % 8 == 0) {
            const Change& change = kChanges[random_() % kChanges.size()];
            engine::Frame other = copy(f);
            change.apply(other);
            ++put[change.counted];
            waiting_.push_back(other);
        }
        if (long_one && random_() % 200 == 0) return pool_.free({&f, 1});
        if (long_one && random_() % 100 == 0) waiting_.push_back(copy(f));
        waiting_.push_back(f);
        if (long_one && random_() % 200 == 0 && waiting_.size() > 1) std::swap(waiting_.back(), waiting_[waiting_.size() - 2]);
    }

    engine::Port& real_;
    engine::FramePool& pool_;
    std::mt19937 random_{7};
    std::deque<engine::Frame> waiting_;
};

constexpr uint32_t kBytes = 48 << 10;

void run(uint32_t reorder, bool mapped) {
    std::deque<MeddlingPort> ports;
    EngineWorld w(0);
    w.reorder_packets = reorder;
    w.wrap_port = [&](engine::Port& real) -> engine::Port& { return ports.emplace_back(real, w.pool); };
    w.add_nics(0, 2);
    AppSession& sa = w.add_session();
    AppSession& sb = w.add_session();
    AppCq& ca = w.add_cq(sa, 1024);
    AppCq& cb = w.add_cq(sb, 1024);
    struct Pair {
        AppQp *a, *b;
        std::vector<uint8_t> src, dst;
        uint32_t key_src, key_dst;
    };
    std::deque<Pair> pairs;
    std::mt19937 random(3);
    for (int i = 0; i < 2; ++i) {
        auto& p = pairs.emplace_back(Pair{&w.add_qp(sa, ca, ca, 0), &w.add_qp(sb, cb, cb, 1), std::vector<uint8_t>(kBytes),
                                          std::vector<uint8_t>(kBytes), 0, 0});
        REQUIRE(w.connect(*p.a, *p.b, 1, 14) == 0);
        for (auto& c : p.src) c = static_cast<uint8_t>(random());
        p.key_src = w.add_mr(sa, p.src.data(), kBytes);
        p.key_dst = w.add_mr(sb, p.dst.data(), kBytes, 15, mapped);
    }
    ports[1].on = true;
    uint64_t wrong = 0;
    for (int round = 0; round < 6; ++round) {
        for (auto& p : pairs) {
            std::fill(p.dst.begin(), p.dst.end(), uint8_t{0});
            auto wqe = make_wqe(round % 2 ? WrOpcode::Send : WrOpcode::RdmaWrite, round, send_flags::kSignaled);
            wqe.remote_addr = reinterpret_cast<uintptr_t>(p.dst.data());
            wqe.rkey = p.key_dst;
            // Two SGEs: the border lies in the middle of a packet.
            if (round % 2)
                p.b->post_recv(round, {sge(p.dst.data(), 10000, p.key_dst), sge(p.dst.data() + 10000, kBytes - 10000, p.key_dst)});
            p.a->post_send(wqe, {sge(p.src.data(), kBytes, p.key_src)});
        }
        abi::Cqe cqe;
        for (size_t i = 0; i < pairs.size(); ++i) {
            REQUIRE(w.wait_cqe(ca, cqe, 200000));
            CHECK(cqe.status == 0);
        }
        if (round % 2)
            for (size_t i = 0; i < pairs.size(); ++i) REQUIRE(w.wait_cqe(cb, cqe));
        for (auto& p : pairs) wrong += p.src != p.dst;
    }
    CHECK(wrong == 0);
    ports[1].on = false;
    w.turns(2000);
    for (const auto& [counter, times] : ports[1].put) {
        INFO(stats::kCounters[static_cast<size_t>(counter)].name);
        CHECK(w.counter(1, counter) == times);
    }
    CHECK(ports[1].put.size() == 5);
    CHECK(w.counter(1, Counter::out_of_sequence) > 0);
    CHECK(w.counter(1, Counter::duplicate_request) > 0);
}

}  // namespace

TEST_CASE("whatever comes between the packets of a message", "[engine][9.6][9.7.4.1.1]") {
    for (const bool mapped : {false, true})
        for (const uint32_t reorder : {0u, 32u}) {
            INFO("mapped " << mapped << " reorder " << reorder);
            run(reorder, mapped);
        }
}
