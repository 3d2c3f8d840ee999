// SPDX-License-Identifier: BSD-3-Clause
// Cost of a packet in the engine, as a ratio to what the bytes alone cost: copying the payload and summing it
// (roofline, measured in the same run). Two shards, each with one NIC, joined by the embedded switch and driven in
// turns by one thread; the time of each shard's turns is taken by itself, so TX and RX show apart:
//   TX   WQE, headers, payload into the frame, ICRC, ring; and the ACKs that come back
//   RX   ring, parse, ICRC, responder, payload to memory, ACK
// Payload paths, from and to: "inline" (in the WQE), "staged" (captured by the provider), "mapped" (memory both sides
// see) and "vm" (process_vm; here on our own process).
// No EAL: frames come from the heap. Absolute times of a virtual machine mean nothing; look at the ratios.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "measure.h"
#include "support/engine_world.h"
#include "wire/crc32.h"

using namespace rocemu;
using namespace rocemu::test;
using bench::percentile;
using bench::seconds;

namespace {

// ns to copy and sum one payload, over a working set as large as the frames in flight.
double roofline(uint32_t bytes) {
    constexpr size_t kFrames = 64;
    std::vector<std::byte> src(size_t{kFrames} * bytes, std::byte{1}), dst(size_t{kFrames} * 4608);
    uint32_t crc = 0;
    const double start = seconds();
    size_t n = 0;
    do {
        for (size_t i = 0; i < kFrames; ++i, ++n) {
            std::memcpy(&dst[i * 4608], &src[i * bytes], bytes);
            crc ^= wire::crc32_update(0, &dst[i * 4608], bytes);
        }
    } while (seconds() - start < 0.0002);
    const double ns = (seconds() - start) * 1e9 / static_cast<double>(n);
    return crc == 1 ? ns + 1e-9 : ns;  // the sum is used
}

enum class From { Inline, Staged, Vm };

struct Case {
    const char* name;
    uint32_t payload;  // bytes of a packet
    uint32_t message;  // bytes of a WRITE
    uint8_t mtu;
    From from;
    bool to_mapped;
};

struct Cost {
    double tx_ns, rx_ns;
};

// One round of `packets` packets.
class Rig {
  public:
    explicit Rig(const Case& c)
        : c_(c),
          tx_(1),
          rx_(tx_, 1),
          st_(tx_.add_session(payload::Path::ProcessVm, true)),
          sr_(rx_.add_session()),
          cq_t_(tx_.add_cq(st_, 1024)),
          cq_r_(rx_.add_cq(sr_, 1024)),
          qt_(tx_.add_qp(st_, cq_t_, cq_t_, 0, caps(c))),
          qr_(rx_.add_qp(sr_, cq_r_, cq_r_, 1, caps(c))),
          src_(1 << 20, std::byte{7}),
          dst_(1 << 20) {
        if (tx_.connect_one(qt_, qr_, c.mtu, 14, 0) || rx_.connect_one(qr_, qt_, c.mtu, 14, 0)) std::abort();
        key_src_ = tx_.add_mr(st_, src_.data(), src_.size());
        key_dst_ = rx_.add_mr(sr_, dst_.data(), dst_.size(), 15, c.to_mapped);
        inline_data_.assign(c.message, std::byte{9});
    }

    Cost round(uint32_t packets) {
        const uint32_t per_message = (c_.message + c_.payload - 1) / c_.payload;
        const uint32_t messages = packets / per_message;
        uint32_t posted = 0, done = 0;
        double tx = 0, rx = 0;
        abi::Cqe cqe;
        while (done < messages) {
            while (posted < messages && posted - done < 128) post(posted++);
            const double t0 = seconds();
            const Instant now{static_cast<int64_t>(t0 * 1e9)};
            tx_.shard.turn(now);
            const double t1 = seconds();
            rx_.shard.turn(now);
            const double t2 = seconds();
            tx += t1 - t0;
            rx += t2 - t1;
            while (cq_t_.poll(cqe)) {
                if (cqe.status != 0) std::abort();
                ++done;
            }
        }
        const double n = static_cast<double>(messages) * per_message;
        return {tx * 1e9 / n, rx * 1e9 / n};
    }

  private:
    static transport::QpCaps caps(const Case& c) { return {256, 256, 1, 1, c.from == From::Inline ? c.message : 64}; }
    void post(uint32_t i) {
        auto wqe = make_wqe(WrOpcode::RdmaWrite, i);
        const size_t at = size_t{i} * c_.message % (src_.size() - c_.message + 1);
        wqe.remote_addr = reinterpret_cast<uintptr_t>(dst_.data()) + at;
        wqe.rkey = key_dst_;
        if (c_.from == From::Inline) return qt_.post_send(wqe, {}, inline_data_);
        if (c_.from == From::Staged) {
            wqe.payload_kind = static_cast<uint8_t>(abi::PayloadKind::Staged);
            // As the provider does with 64 KiB messages: what fits into half the stage, over and over.
            wqe.stage_ref = abi::kStageReady | (size_t{i} * c_.message % (abi::kStageBytes / 2));
        }
        qt_.post_send(wqe, {sge(src_.data() + at, c_.message, key_src_)});
    }

    Case c_;
    EngineWorld tx_, rx_;
    AppSession &st_, &sr_;
    AppCq &cq_t_, &cq_r_;
    AppQp &qt_, &qr_;
    std::vector<std::byte> src_, dst_;
    std::vector<std::byte> inline_data_;
    uint32_t key_src_ = 0, key_dst_ = 0;
};

constexpr std::array kCases{
    Case{"64 B inline to mapped", 64, 64, 3, From::Inline, true},
    Case{"64 B inline to vm", 64, 64, 3, From::Inline, false},
    Case{"1 KiB staged to mapped", 1024, 65536, 3, From::Staged, true},
    Case{"4 KiB staged to mapped", 4096, 65536, 5, From::Staged, true},
    Case{"4 KiB staged to vm", 4096, 65536, 5, From::Staged, false},
    Case{"1 KiB vm to vm", 1024, 65536, 3, From::Vm, false},
    Case{"4 KiB vm to vm", 4096, 65536, 5, From::Vm, false},
};

}  // namespace

int main(int argc, char** argv) {
    // engine [--quick] [--json FILE] [--only CASE] [--percentile N]   (CASE: the beginning of its name)
    // On a machine whose core others share, a low percentile (10) shows the rounds that nobody cut into.
    bool quick = false;
    unsigned percent = 50;
    std::string only;
    std::FILE* json = nullptr;
    for (int i = 1; i < argc; ++i) {
        quick |= std::string(argv[i]) == "--quick";
        if (std::string(argv[i]) == "--json" && i + 1 < argc) json = std::fopen(argv[++i], "w");
        if (std::string(argv[i]) == "--percentile" && i + 1 < argc) percent = std::min(99, std::abs(std::atoi(argv[++i])));
        if (std::string(argv[i]) == "--only" && i + 1 < argc) only = argv[++i];
    }
    const int rounds = quick ? 101 : 1001;
    const uint32_t packets = 1024;
    std::printf("engine packet cost, percentile %u of %d rounds; CRC kernel %s\n", percent, rounds,
                wire::active_crc_kernel().name);
    std::printf("%-28s %10s | %8s %8s %9s | %8s %8s %9s\n", "packet", "roofline", "TX ns", "% roof", "TX Mpps", "RX ns",
                "% roof", "RX Mpps");
    if (json != nullptr) std::fprintf(json, "[");
    for (const Case& c : kCases) {
        if (!std::string(c.name).starts_with(only)) continue;
        Rig rig(c);
        for (int i = 0; i < 8; ++i) rig.round(packets);  // warm up
        std::vector<double> roof, tx, rx;
        for (int i = 0; i < rounds; ++i) {
            roof.push_back(roofline(c.payload));
            const Cost cost = rig.round(packets);
            tx.push_back(cost.tx_ns);
            rx.push_back(cost.rx_ns);
        }
        const double r = percentile(roof, percent), t = percentile(tx, percent), x = percentile(rx, percent);
        std::printf("%-28s %7.0f ns | %8.0f %7.0f%% %9.2f | %8.0f %7.0f%% %9.2f\n", c.name, r, t, 100 * r / t, 1e3 / t,
                    x, 100 * r / x, 1e3 / x);
        if (json != nullptr)
            std::fprintf(json, "%s\n{\"case\": \"%s\", \"roofline_ns\": %.1f, \"tx_ns\": %.1f, \"rx_ns\": %.1f}",
                         &c == kCases.begin() ? "" : ",", c.name, r, t, x);
    }
    if (json != nullptr) {
        std::fprintf(json, "\n]\n");
        std::fclose(json);
    }
    std::printf("%% roof: the share of the packet's time that copying and summing its payload alone would take.\n");
    return 0;
}
