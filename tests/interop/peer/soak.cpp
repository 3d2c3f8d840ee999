// SPDX-License-Identifier: BSD-3-Clause
// See soak.h.
#include "soak.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <unordered_map>
#include <vector>

#include "soak_connection.h"
#include "wire_control.h"

namespace interop {

namespace {

using soak::Address;
using soak::Common;
using soak::Connection;

constexpr unsigned kRecordedBytes = 128;  // of each packet: headers
constexpr double kLastCompletions = 60;   // seconds after the last message was posted

struct Figures {
    uint64_t posted = 0, received = 0, bytes = 0, postponed = 0;
    double seconds = 0;
};

class Soak {
  public:
    Soak(Channel& channel, Device& device, uint32_t side, uint32_t connections)
        : channel_(channel), common_{device, side, device.gid_index(4), nullptr, nullptr, nullptr, 0, {}} {
        if (common_.gid_index < 0) throw Failure("no RoCE v2 address");
        const size_t bytes = Connection::kMemory * connections + soak::kMaxSize;
        memory_ =
            static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (memory_ == MAP_FAILED) throw Failure("no memory");
        for (size_t i = 0; i < soak::kMaxSize; ++i) memory_[i] = soak::readable(i);
        common_.readable = reinterpret_cast<uintptr_t>(memory_);
        common_.pd = ibv_alloc_pd(device.context);
        common_.cq = ibv_create_cq(device.context, static_cast<int>(connections * (soak::kWindow + soak::kReceives)),
                                   nullptr, nullptr, 0);
        if (common_.pd == nullptr || common_.cq == nullptr) throw Failure("no PD or CQ");
        common_.mr = ibv_reg_mr(
            common_.pd, memory_, bytes,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
        if (common_.mr == nullptr) throw Failure("ibv_reg_mr");
        if (ibv_query_gid(device.context, 1, common_.gid_index, &common_.gid) != 0) throw Failure("ibv_query_gid");
        for (uint32_t i = 0; i < connections; ++i)
            connections_.push_back(
                std::make_unique<Connection>(common_, i, memory_ + soak::kMaxSize + i * Connection::kMemory));
    }

    void connect() {
        std::vector<Address> mine, theirs(connections_.size());
        for (const auto& c : connections_) mine.push_back(c->address());
        channel_.send(mine.data(), mine.size() * sizeof mine[0]);
        channel_.receive(theirs.data(), theirs.size() * sizeof theirs[0]);
        for (size_t i = 0; i < connections_.size(); ++i) connections_[i]->connect(theirs[i]);
        channel_.barrier();
    }

    void run(double length) {
        const double start = seconds(), end = start + length;
        const auto n = static_cast<double>(connections_.size());
        // Post number p is that of connection p % n, spread evenly over each second.
        for (uint64_t p = 0;;) {
            const double now = seconds();
            while (p < static_cast<uint64_t>((std::min(now, end) - start) * n)) {
                Connection& c = *connections_[p % connections_.size()];
                if (c.may_post())
                    c.post();
                else
                    ++figures.postponed;
                ++p;
            }
            if (!poll()) usleep(300);
            if (now >= end && all_idle()) break;
            if (channel_.gone()) throw Failure("the other process is gone");
            if (now >= end + kLastCompletions) throw Failure("completions are missing");
        }
        figures.seconds = seconds() - start;
    }

    // The other side says how many messages it sent on each connection: all must come.
    void finish() {
        std::vector<uint64_t> mine, theirs(connections_.size());
        for (const auto& c : connections_) mine.push_back(c->with_receive());
        channel_.send(mine.data(), mine.size() * sizeof mine[0]);
        // It may still need our responder's application: receives are posted by poll().
        while (!channel_.readable())
            if (!poll()) usleep(300);
        channel_.receive(theirs.data(), theirs.size() * sizeof theirs[0]);
        const double limit = seconds() + kLastCompletions;
        for (size_t i = 0; i < connections_.size(); ++i) {
            while (connections_[i]->received() < theirs[i]) {
                if (!poll()) usleep(300);
                if (seconds() > limit) throw Failure("a message is missing on connection " + std::to_string(i));
            }
        }
        for (const auto& c : connections_) {
            figures.posted += c->posted();
            figures.received += c->received();
            figures.bytes += c->bytes_checked();
        }
    }

    Figures figures;

  private:
    bool poll() {
        ibv_wc wc[64];
        const int n = ibv_poll_cq(common_.cq, 64, wc);
        if (n < 0) throw Failure("ibv_poll_cq");
        for (int i = 0; i < n; ++i) {
            const auto index = static_cast<uint32_t>(wc[i].wr_id);
            if (index >= connections_.size() || wc[i].qp_num != connections_[index]->qpn())
                throw Failure("a completion of nobody");
            connections_[index]->handle(wc[i]);
        }
        return n > 0;
    }
    [[nodiscard]] bool all_idle() const {
        return std::all_of(connections_.begin(), connections_.end(), [](const auto& c) { return c->idle(); });
    }

    Channel& channel_;
    Common common_;
    std::byte* memory_ = nullptr;
    std::vector<std::unique_ptr<Connection>> connections_;
};

// Runs this side and exchanges figures. What goes wrong early ends the process, and with it the other one.
std::pair<Figures, Figures> play(Channel& channel, Device& device, uint32_t side, const SoakOptions& o,
                                 WireControl* wire) {
    Soak s(channel, device, side, o.connections);
    s.connect();
    if (wire != nullptr) wire->begin("soak", o.loss_percent, 0, 0, kRecordedBytes);
    channel.barrier();
    try {
        s.run(o.seconds);
        s.finish();
    } catch (const Failure& e) {
        std::fprintf(stderr, "interop_peer: %s\n", e.what());
        if (wire != nullptr) wire->end(true);
        throw Failure("the soak failed");
    }
    // Loss ends before the queue pairs do: nobody waits for a lost acknowledgement of the other.
    if (wire != nullptr) wire->end(false);
    const Figures theirs = channel.exchange(s.figures);
    channel.barrier();
    return {s.figures, theirs};
}

void print(const char* who, const Figures& f) {
    std::printf("%s: %llu messages sent, %llu received, %llu bytes checked, %llu postponed, %.1f s\n", who,
                static_cast<unsigned long long>(f.posted), static_cast<unsigned long long>(f.received),
                static_cast<unsigned long long>(f.bytes), static_cast<unsigned long long>(f.postponed), f.seconds);
}

}  // namespace

void soak_drive(Channel& channel, Device& device, const SoakOptions& options) {
    WireControl wire(options.wire);
    channel.send_text(std::string(kSoakWord) + " " + std::to_string(options.connections) + " " +
                      std::to_string(options.seconds));
    const auto [mine, theirs] = play(channel, device, 0, options, &wire);
    std::printf("%u connections, %u s, %u %% loss\n", options.connections, options.seconds, options.loss_percent);
    print("here", mine);
    print("peer", theirs);
}

void soak_serve(Channel& channel, Device& device, const std::string& line) {
    SoakOptions o;
    if (std::sscanf(line.c_str(), "soak %u %u", &o.connections, &o.seconds) != 2) throw Failure("not a soak: " + line);
    (void)play(channel, device, 1, o, nullptr);
}

}  // namespace interop
