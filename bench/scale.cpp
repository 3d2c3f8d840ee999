// SPDX-License-Identifier: BSD-3-Clause
// What a packet costs where there are many: queue pairs, active or idle, and shards. Each figure is a ratio to the same
// measurement in its smallest form, alternating in one run; CPU time of the threads, so that others on the machine
// count little. A world is a shard with two NICs on the embedded switch; 64-byte WRITEs, inline, to mapped memory.
// A CQ of a program whose queue pairs are on two shards is a ring of each, taken from under one lock, as in the provider
// (lib/provider/cq_poll.cpp).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/huge_memory.h"
#include "measure.h"
#include "support/engine_world.h"

using namespace rocemu;
using namespace rocemu::test;
using bench::cpu_seconds;
using bench::median;
using bench::seconds;

namespace {

constexpr uint32_t kBytes = 64;

// `active` pairs of QPs that send, `idle` more that are connected.
class World {
  public:
    World(uint32_t active, uint32_t idle)
        : session_(world_.add_session()),
          cq_(world_.add_cq(session_, 65536)),
          memory_(4096),
          data_(kBytes, std::byte{9}) {
        key_ = world_.add_mr(session_, memory_.data(), memory_.size(), 15, true);
        world_.slot_step = 1;
        world_.queues = std::make_unique<QueueRegion>(size_t{active + idle} * 2 * 4096);
        const transport::QpCaps caps{16, 16, 1, 1, kBytes};
        for (uint32_t i = 0; i < active + idle; ++i) {
            AppQp& a = world_.add_qp(session_, cq_, cq_, 0, caps);
            AppQp& b = world_.add_qp(session_, cq_, cq_, 1, caps);
            if (world_.connect_one(a, b, 3, 14, 0) || world_.connect_one(b, a, 3, 14, 0)) std::abort();
            if (i < active) senders_.push_back(&a);
        }
        in_flight_ = std::vector<std::atomic<uint32_t>>(senders_.size());
        round(20000);
    }
    // ns of CPU for a packet and its ACK.
    double round(uint32_t packets) {
        return round(packets, [this] { take(); });
    }
    // `poll`: takes completions, of this world and perhaps of others.
    template <typename Poll>
    double round(uint32_t packets, Poll&& poll) {
        const double start = cpu_seconds();
        constexpr uint32_t kDepth = 16;  // of each QP
        uint32_t posted = 0;
        done_.store(0, std::memory_order_relaxed);
        while (done_.load(std::memory_order_relaxed) < packets) {
            for (uint32_t i = 0; i < senders_.size() && posted < packets; ++i)
                for (; in_flight_[i].load(std::memory_order_relaxed) < kDepth && posted < packets; ++posted) {
                    in_flight_[i].fetch_add(1, std::memory_order_relaxed);
                    post(i);
                }
            world_.shard.turn(Instant{static_cast<int64_t>(seconds() * 1e9)});
            poll();
        }
        return (cpu_seconds() - start) * 1e9 / packets;
    }
    // What has completed here; one thread at a time.
    void take() {
        uint32_t taken = 0;
        for (abi::Cqe cqe; cq_.poll(cqe); ++taken) {
            if (cqe.status != 0) std::abort();
            in_flight_[cqe.wr_id].fetch_sub(1, std::memory_order_relaxed);
        }
        if (taken != 0) done_.fetch_add(taken, std::memory_order_relaxed);
    }

  private:
    void post(uint32_t i) {
        auto wqe = make_wqe(WrOpcode::RdmaWrite, i);
        wqe.remote_addr = reinterpret_cast<uintptr_t>(memory_.data());
        wqe.rkey = key_;
        senders_[i]->post_send(wqe, {}, data_);
    }

    EngineWorld world_;
    AppSession& session_;
    AppCq& cq_;
    std::vector<std::byte> memory_, data_;
    uint32_t key_ = 0;
    std::vector<AppQp*> senders_;
    // Counted down by whoever takes the completion.
    std::vector<std::atomic<uint32_t>> in_flight_;
    std::atomic<uint32_t> done_{0};
};

// What state costs because it is in no near cache: ns for kLines lines at random of a set as large as what `pairs` of
// active QPs touch, both sides, 16 messages under way on each, as it was counted. In huge pages; all lines are asked for
// at once (what perfect prefetching could reach), or each says where the next one is.
class Lines {
  public:
    static constexpr uint32_t kLines = 16, kLinesOfPair = 150;

    explicit Lines(uint32_t pairs) : count_(pairs * kLinesOfPair), lines_(static_cast<Line*>(memory_.allocate(bytes(), 64))) {
        std::vector<uint32_t> order(count_);
        for (uint32_t i = 0; i < count_; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), std::minstd_rand(1));
        for (uint32_t i = 0; i < count_; ++i) lines_[order[i]].next = order[(i + 1) % count_];
    }
    ~Lines() { memory_.deallocate(lines_, bytes(), 64); }
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;

    double at_once(uint32_t messages) {
        const double start = cpu_seconds();
        uint64_t at = 1;
        for (uint64_t i = 0; i < uint64_t{messages} * kLines; ++i) {
            at = at * 6364136223846793005u + 1442695040888963407u;
            ++lines_[(at >> 33) % count_].value;
        }
        return (cpu_seconds() - start) * 1e9 / messages;
    }
    double in_turn(uint32_t messages) {
        const double start = cpu_seconds();
        for (uint64_t i = 0; i < uint64_t{messages} * kLines; ++i) at_ = lines_[at_].next;
        return (cpu_seconds() - start) * 1e9 / messages;
    }

  private:
    struct alignas(64) Line {
        uint32_t next = 0;
        uint32_t value = 0;
    };
    [[nodiscard]] size_t bytes() const { return size_t{count_} * sizeof(Line); }

    uint32_t count_;
    engine::HugeMemory memory_;
    Line* lines_;
    volatile uint32_t at_ = 0;
};

template <typename One, typename Other>
void compare_by(const char* what, uint32_t rounds, One&& one, Other&& other) {
    std::vector<double> ratios, a, b;
    for (uint32_t i = 0; i < rounds; ++i) {
        a.push_back(one());
        b.push_back(other());
        ratios.push_back(b.back() / a.back());
    }
    std::printf("%-58s %6.0f ns %6.0f ns   %.2f\n", what, median(a), median(b), median(ratios));
}

void compare(const char* what, World& one, World& other, uint32_t packets, uint32_t rounds) {
    compare_by(what, rounds, [&] { return one.round(packets); }, [&] { return other.round(packets); });
}

// Packets of two shards, each a thread of its own, for the packets of one in the same CPU time. `one_cq`: whoever polls
// takes from both.
void shards(const char* what, bool one_cq, uint32_t packets, uint32_t rounds) {
    World first(8, 0), second(8, 0);
    std::mutex cq;
    const auto poll = [&](World& own) {
        if (!one_cq) return own.take();
        const std::lock_guard guard(cq);
        first.take();
        second.take();
    };
    std::vector<double> ratios, alone, both;
    for (uint32_t i = 0; i < rounds; ++i) {
        double a = 0, b = 0;
        alone.push_back(first.round(packets));
        std::thread other([&] { b = second.round(packets, [&] { poll(second); }); });
        a = first.round(packets, [&] { poll(first); });
        other.join();
        both.push_back((a + b) / 2);
        ratios.push_back(alone.back() / a + alone.back() / b);
    }
    std::printf("%-58s %6.0f ns %6.0f ns   %.2f times the packets\n", what, median(alone), median(both), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
    // scale [--quick] [idle|active|shards|N]; N: that many active QPs, without anything else, for profiles
    bool quick = false;
    std::string only;
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "--quick")
            quick = true;
        else
            only = argv[i];
    }
    const auto wanted = [&](const char* name) { return only.empty() || only == name; };
    const uint32_t packets = quick ? 20000 : 100000, rounds = quick ? 3 : 9;
    std::printf("%-58s %9s %9s   ratio\n", "64-byte WRITE and its ACK, both NICs on one shard", "first", "second");
    if (const int n = std::atoi(only.c_str()); n > 0) {
        World world(static_cast<uint32_t>(n), 0);
        std::printf("%-58s %6.0f ns\n", only.c_str(), world.round(packets * rounds));
    }
    if (wanted("idle")) {
        World alone(1, 0), crowd(1, 10000);
        compare("one active QP: alone, among 10,000 idle ones", alone, crowd, packets, rounds);
    }
    if (wanted("active")) {
        World few(8, 0), many(1000, 0);
        compare("active QPs: 8, 1,000", few, many, packets, rounds);
        Lines near(8), far(1000);
        compare_by("16 lines of the state of 8, 1,000, all at once", rounds, [&] { return near.at_once(packets); },
                   [&] { return far.at_once(packets); });
        compare_by("... each says where the next one is", rounds, [&] { return near.in_turn(packets); },
                   [&] { return far.in_turn(packets); });
    }
    if (wanted("shards")) {
        shards("two shards, two threads, against one", false, packets, rounds);
        shards("... whose queue pairs share one CQ", true, packets, rounds);
    }
    return 0;
}
