// SPDX-License-Identifier: BSD-3-Clause
// The loss table: goodput of one RC connection in virtual time for operation x message size x window x loss, compared
// with loss_table.golden, so that a change in recovery shows as a diff. Link: 100 Gbit/s, 5 us each way, path MTU 1024.
//   ROCEMU_UPDATE=1 loss_table   writes the golden file anew
//
// From 10^-3 on losses are drawn at random in both directions. Below, they are so rare that each stands alone: its cost
// is measured at several places of a message and added to the time of a clean run of the right length.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/sim/qp_pair.h"

using namespace rocemu;
using namespace rocemu::sim;
using stats::Counter;

namespace {

constexpr uint32_t kMtu = 1024;

struct Cell {
    WrOpcode op;
    uint32_t bytes;
    uint32_t window;
};

struct Outcome {
    double seconds = 0, payload = 0;
    uint64_t packets = 0, timeouts = 0;
    bool done = false;
    [[nodiscard]] double gbit() const { return payload * 8 / seconds / 1e9; }
};

// `packets` data packets, rounded up to whole messages. `drop`: chance; `victim`: the number of one data packet to
// drop.
Outcome transfer(const Cell& c, uint64_t packets, double drop, int64_t victim = -1) {
    PairOptions o;
    o.path_mtu = 3;
    o.seed = 7;
    o.memory_bytes = 2 << 20;
    o.attr.timeout = 14;
    o.config.window_packets = c.window;
    o.config.send_window_wqes = o.config.recv_window_wqes = 256;
    o.attr.max_rd_atomic = o.attr.max_dest_rd_atomic = static_cast<uint8_t>(c.window);
    QpPair pair(o);
    pair.set_faults({.drop = drop});
    Link& data = c.op == WrOpcode::RdmaRead ? pair.ba : pair.ab;
    int64_t seen = 0;
    data.filter = [&](const wire::PacketView& p) {
        return p.op->has_payload && seen++ == victim ? Fate::Drop : Fate::Pass;
    };
    const uint64_t per_message = (c.bytes + kMtu - 1) / kMtu;
    const uint64_t messages = std::max<uint64_t>((packets + per_message - 1) / per_message, 2);
    const Sge sge{kMemoryBase, c.bytes, kKey};
    for (uint64_t i = 0; i < messages; ++i) {
        pair.a.send(c.op, {sge}, kMemoryBase);
        if (c.op == WrOpcode::Send) pair.b.receive({sge});
    }
    const Instant start = pair.now;
    Outcome out;
    out.done = pair.run([&] { return pair.a.sends_done == messages; }, 3600 * kSecond);
    for (const auto& w : pair.a.sends) out.done &= w.status == WcStatus::Success;
    out.seconds = static_cast<double>(pair.now - start) / 1e9;
    out.payload = static_cast<double>(messages) * c.bytes;
    out.packets = messages * per_message;
    out.timeouts = pair.a.count(Counter::local_ack_timeout_err);
    CHECK(pair.healthy());
    return out;
}

std::string number(double gbit, bool done) {
    char text[32];
    if (done)
        std::snprintf(text, sizeof text, "%9.3f", gbit);
    else
        std::snprintf(text, sizeof text, "%9s", "broken");
    return text;
}

// Isolated losses: clean time of 1/loss packets plus what one loss adds, the mean over places in the run.
std::string rare(const Cell& c, const Outcome& clean, double loss) {
    constexpr int kPlaces = 6;
    double extra = 0;
    for (int i = 0; i < kPlaces; ++i) {
        const auto victim = static_cast<int64_t>(clean.packets * static_cast<uint64_t>(2 * i + 1) / (2 * kPlaces));
        extra += (transfer(c, clean.packets, 0, victim).seconds - clean.seconds) / kPlaces;
    }
    const double packets = 1 / loss;
    const double seconds = clean.seconds / static_cast<double>(clean.packets) * packets + std::max(extra, 0.0);
    return number(clean.payload / static_cast<double>(clean.packets) * packets * 8 / seconds / 1e9, clean.done);
}

std::string row(const Cell& c) {
    char text[32];
    std::snprintf(text, sizeof text, "%8u", c.bytes);
    std::string line = text;
    const Outcome clean = transfer(c, 1500, 0);
    line += number(clean.gbit(), clean.done) + rare(c, clean, 1e-5) + rare(c, clean, 1e-4);
    uint64_t timeouts = 0;
    for (const auto& [loss, packets] : {std::pair{1e-3, 12000}, {1e-2, 3000}, {1e-1, 600}}) {
        const Outcome o = transfer(c, static_cast<uint64_t>(packets), loss);
        line += number(o.gbit(), o.done);
        timeouts += o.timeouts;
    }
    std::snprintf(text, sizeof text, "%9llu\n", static_cast<unsigned long long>(timeouts));
    return line + text;
}

std::string table() {
    std::string all = "Goodput in Gbit/s. The last column counts ACK timeouts in the three runs with random losses.\n";
    for (const auto& [op, name] :
         {std::pair{WrOpcode::Send, "SEND"}, {WrOpcode::RdmaWrite, "WRITE"}, {WrOpcode::RdmaRead, "READ"}})
        for (const uint32_t window : {16u, 128u}) {
            char head[160];
            std::snprintf(head, sizeof head, "\n%s, window of %u %s\n%8s%9s%9s%9s%9s%9s%9s%9s\n", name, window,
                          op == WrOpcode::RdmaRead ? "READs" : "packets", "bytes", "0", "1e-5", "1e-4", "1e-3", "1e-2",
                          "1e-1", "timeouts");
            all += head;
            for (const uint32_t bytes : {64u, 4096u, 65536u, 1u << 20}) all += row({op, bytes, window});
        }
    return all;
}

}  // namespace

TEST_CASE("goodput under loss is what it was", "[sim][loss]") {
    const std::string now = table();
    if (std::getenv("ROCEMU_UPDATE") != nullptr) std::ofstream(LOSS_TABLE) << now;
    std::ifstream in(LOSS_TABLE);
    const std::string golden{std::istreambuf_iterator<char>(in), {}};
    if (now != golden) {
        std::istringstream is(now), was(golden);
        for (std::string a, b; std::getline(is, a);) {
            b.clear();
            std::getline(was, b);
            if (a != b) WARN("was " << b << "\nis  " << a);
        }
    }
    INFO("a change of recovery: look at the difference, then ROCEMU_UPDATE=1 writes " LOSS_TABLE);
    CHECK(now == golden);
}
