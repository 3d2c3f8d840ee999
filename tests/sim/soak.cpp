// SPDX-License-Identifier: BSD-3-Clause
// The long run: 1,000 QPs, a message a second each, 1 % of mixed faults, in virtual time. No completion is lost,
// doubled or out of order, no byte is wrong, memory does not grow. Ten virtual minutes; ROCEMU_SOAK_HOURS=24 for as
// long as that.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/qp_pair.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;
using transport::Completion;

namespace {

constexpr int kPairs = 500;
constexpr uint64_t kSlots = 4;  // messages a direction may have in memory at a time
constexpr uint32_t kSlotBytes = 1536;
constexpr uint64_t kMemory = 64 + 4 * kSlots * kSlotBytes;

std::byte pattern(uint64_t message, uint64_t i) {
    return static_cast<std::byte>(message * 37 + i * 11 + (i >> 8));
}

// One direction of a pair: a message a second, at a random moment of it, of every kind in turn.
class Talk {
  public:
    Talk(Endpoint& from, Endpoint& to, uint64_t half, uint64_t seed)
        : from_(from),
          to_(to),
          base_(kMemoryBase + 64 + half * 2 * kSlots * kSlotBytes),
          counter_(kMemoryBase + 8 * half),
          random_(seed) {}

    Instant next{0};
    uint64_t posted = 0, sent = 0, received = 0, receives = 0;
    uint64_t wrong = 0;

    void post() {
        next = Instant{(static_cast<int64_t>(posted) + 1) * kSecond + static_cast<int64_t>(random_.below(kSecond))};
        const uint64_t m = posted++;
        const uint32_t bytes = bytes_of(m);
        const WrOpcode op = op_of(m);
        Endpoint& source = op == WrOpcode::RdmaRead ? to_ : from_;
        const uint64_t at = op == WrOpcode::RdmaRead ? there(m) : here(m);
        for (uint32_t i = 0; i < bytes; ++i) source.memory.at(at)[i] = pattern(m, i);
        if (op == WrOpcode::Send) {
            to_.receive({{there(m), kSlotBytes, kKey}});
            ++receives;
        }
        if (op == WrOpcode::AtomicFetchAndAdd) {
            PostedSend wr;
            wr.wqe.opcode = op;
            wr.wqe.flags = send_flags::kSignaled;
            wr.wqe.remote_addr = counter_;
            wr.wqe.rkey = kKey;
            wr.wqe.compare_add = 1;
            wr.sges = {{here(m), 8, kKey}};
            return from_.send(std::move(wr));
        }
        from_.send(op, {{here(m), bytes, kKey}}, there(m));
    }
    void on_send(const Completion& c) {
        const uint64_t m = sent++;
        wrong += c.status != WcStatus::Success || c.wr_id != m;
        if (op_of(m) == WrOpcode::AtomicFetchAndAdd) {
            uint64_t before = 0;
            std::memcpy(&before, from_.memory.at(here(m)), sizeof before);
            wrong += before != m / 4;
            return;
        }
        wrong += !holds(op_of(m) == WrOpcode::RdmaRead ? from_ : to_,
                        op_of(m) == WrOpcode::RdmaRead ? here(m) : there(m), m);
    }
    void on_receive(const Completion& c) {
        const uint64_t m = received++ * 4;  // every fourth message is a SEND
        wrong += c.status != WcStatus::Success || c.byte_len != bytes_of(m) || !holds(to_, there(m), m);
    }

  private:
    static WrOpcode op_of(uint64_t m) {
        static constexpr std::array kOps{WrOpcode::Send, WrOpcode::RdmaWrite, WrOpcode::RdmaRead,
                                         WrOpcode::AtomicFetchAndAdd};
        return kOps[m % 4];
    }
    static uint32_t bytes_of(uint64_t m) {
        return op_of(m) == WrOpcode::AtomicFetchAndAdd ? 8 : static_cast<uint32_t>(m * 977 % kSlotBytes);
    }
    [[nodiscard]] uint64_t here(uint64_t m) const { return base_ + m % kSlots * kSlotBytes; }
    [[nodiscard]] uint64_t there(uint64_t m) const { return base_ + (kSlots + m % kSlots) * kSlotBytes; }
    static bool holds(Endpoint& e, uint64_t at, uint64_t m) {
        for (uint32_t i = 0; i < bytes_of(m); ++i)
            if (e.memory.at(at)[i] != pattern(m, i)) return false;
        return true;
    }

    Endpoint& from_;
    Endpoint& to_;
    uint64_t base_, counter_;
    Random random_;
};

struct Conversation {
    explicit Conversation(uint64_t seed)
        : pair(options(seed)), there(pair.a, pair.b, 0, seed), back(pair.b, pair.a, 1, ~seed) {
        pair.set_faults({0.0025, 0.0025, 0.0025, 0.0025});
        pair.a.on_completion = [this](const Completion& c) { c.is_recv ? back.on_receive(c) : there.on_send(c); };
        pair.b.on_completion = [this](const Completion& c) { c.is_recv ? there.on_receive(c) : back.on_send(c); };
    }
    static PairOptions options(uint64_t seed) {
        PairOptions o;
        o.seed = seed;
        o.memory_bytes = kMemory;
        o.config.send_window_wqes = o.config.recv_window_wqes = 8;
        o.config.max_rd_atomic = o.config.max_dest_rd_atomic = 16;
        o.config.dma_window = 32;
        o.config.reorder_packets = seed % 2 ? 16 : 0;
        o.attr.timeout = 14;
        return o;
    }
    void run(Instant until) {
        while (true) {
            Talk& first = there.next <= back.next ? there : back;
            const Instant at = std::min(first.next, until);
            if (pair.now < at) pair.run([] { return false; }, at - pair.now);
            pair.now = std::max(pair.now, at);
            if (first.next > until) break;
            first.post();
        }
        for (Endpoint* e : {&pair.a, &pair.b}) {
            e->sends.clear();
            e->receives.clear();
        }
    }
    [[nodiscard]] bool complete() const {
        return there.sent == there.posted && back.sent == back.posted && there.received == there.receives &&
               back.received == back.receives;
    }
    QpPair pair;
    Talk there, back;
};

size_t heap_in_use() {
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

}  // namespace

TEST_CASE("1,000 QPs with a message a second and 1 % faults", "[sim][rc][soak][case20]") {
    const char* hours = std::getenv("ROCEMU_SOAK_HOURS");
    const int64_t minutes = hours != nullptr ? std::max(1L, static_cast<long>(std::atof(hours) * 60)) : 10;
    std::vector<std::unique_ptr<Conversation>> all;
    for (uint64_t i = 0; i < kPairs; ++i) all.push_back(std::make_unique<Conversation>(i + 1));
    size_t settled = 0;
    for (int64_t minute = 1; minute <= minutes; ++minute) {
        for (auto& c : all) c->run(Instant{minute * 60 * kSecond});
        if (minute == 5 || (minute == 1 && minutes < 10)) settled = heap_in_use();
    }
    const size_t grown = heap_in_use();
    uint64_t frames = 0, dropped = 0, faults = 0, messages = 0, timeouts = 0, repeated = 0;
    for (auto& c : all) {
        c->pair.settle();
        CHECK(c->complete());
        CHECK(c->there.wrong + c->back.wrong == 0);
        CHECK(c->pair.healthy());
        messages += c->there.sent + c->back.sent;
        for (const Link* l : {&c->pair.ab, &c->pair.ba}) {
            frames += l->counts.sent;
            dropped += l->counts.dropped;
            faults += l->counts.dropped + l->counts.duplicated + l->counts.reordered + l->counts.corrupted;
        }
        for (const Endpoint* e : {&c->pair.a, &c->pair.b}) {
            timeouts += e->count(Counter::local_ack_timeout_err);
            repeated += e->count(Counter::retransmitted_packets);
        }
    }
    std::printf(
        "%lld virtual minutes: %llu messages, %llu frames, %llu faults (%llu lost), %llu repeated, %llu timeouts; "
        "heap %zu bytes, then %zu\n",
        static_cast<long long>(minutes), static_cast<unsigned long long>(messages),
        static_cast<unsigned long long>(frames), static_cast<unsigned long long>(faults),
        static_cast<unsigned long long>(dropped), static_cast<unsigned long long>(repeated),
        static_cast<unsigned long long>(timeouts), settled, grown);
    CHECK(messages >= 2 * kPairs * static_cast<uint64_t>(minutes) * 60 - 2 * kPairs);
    // What is in use varies with what is under way (frames, retries) by a little.
    CHECK(grown <= settled + settled / 100);
}
