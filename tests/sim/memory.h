// SPDX-License-Identifier: BSD-3-Clause
// Memory: a simulated application's memory, reached the way the engine reaches it: at once, or by jobs that take a
// while and end in order, or not at all (ranges that fault). Half of what could be written at once, is.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "base/time.h"
#include "tests/sim/link.h"
#include "transport/io.h"

namespace rocemu::sim {

inline constexpr uint64_t kMemoryBase = 0x7000'0000'0000;

class Memory final : public transport::DirectMemory {
  public:
    Memory(uint64_t bytes, uint64_t seed) : bytes_(bytes), random_(seed), coin_(seed + 1) {}

    // How long a placement takes; 0: it is done when asked for.
    Duration slowest = 0;
    // Accesses that touch [fault_from, fault_to) fail.
    uint64_t fault_from = 0, fault_to = 0;

    [[nodiscard]] std::byte* at(uint64_t va) { return bytes_.data() + (va - kMemoryBase); }
    [[nodiscard]] uint64_t size() const { return bytes_.size(); }

    [[nodiscard]] bool gather(std::span<const memory::Segment> segments, std::byte* out) {
        for (const auto& s : segments) {
            if (faults(s)) return false;
            std::memcpy(out, at(s.va), s.length);
            out += s.length;
        }
        return true;
    }

    struct Job {
        Instant due;
        transport::DmaRequest request;
        std::vector<memory::Segment> segments;
        FrameBytes frame;  // keeps the source alive
    };
    void submit(Instant now, const transport::DmaRequest& r, std::span<const memory::Segment> segments,
                const FrameBytes& frame) {
        const auto delay = static_cast<Duration>(random_.below(static_cast<uint64_t>(slowest) + 1));
        const Instant last = jobs_.empty() ? now : jobs_.back().due;
        jobs_.push_back({std::max(last, now + delay), r, {segments.begin(), segments.end()}, frame});
    }
    // How often; and whether it was ever asked for in front of what waits.
    uint64_t placed_directly = 0;
    bool overtaken = false;
    bool place(const memory::Segment& s, const std::byte* source, bool) override {
        overtaken |= !jobs_.empty();
        if (faults(s) || coin_.below(2) != 0) return false;
        std::memcpy(at(s.va), source, s.length);
        ++placed_directly;
        return true;
    }
    [[nodiscard]] Instant next_due() const { return jobs_.empty() ? kNever : jobs_.front().due; }
    [[nodiscard]] bool idle() const { return jobs_.empty(); }
    // Ends the oldest job if its time has come.
    bool finish(Instant now, uint64_t& tag, transport::DmaStatus& status, uint64_t& original) {
        if (next_due() > now) return false;
        Job job = std::move(jobs_.front());
        jobs_.pop_front();
        tag = job.request.tag;
        status = run(job, original) ? transport::DmaStatus::Ok : transport::DmaStatus::Fault;
        return true;
    }

  private:
    [[nodiscard]] bool faults(const memory::Segment& s) const {
        return s.va < fault_to && s.va + s.length > fault_from;
    }
    bool run(const Job& job, uint64_t& original) {
        for (const auto& s : job.segments)
            if (faults(s)) return false;
        if (transport::is_atomic(job.request.kind)) {
            std::byte* p = at(job.segments.at(0).va);
            std::memcpy(&original, p, sizeof original);
            uint64_t v = original;
            if (job.request.kind == transport::DmaKind::FetchAdd)
                v += job.request.compare_add;
            else if (v == job.request.compare_add)
                v = job.request.swap;
            std::memcpy(p, &v, sizeof v);
            return true;
        }
        const std::byte* from = job.request.source;
        for (const auto& s : job.segments) {
            std::memcpy(at(s.va), from, s.length);
            from += s.length;
        }
        return true;
    }

    std::vector<std::byte> bytes_;
    Random random_, coin_;
    std::deque<Job> jobs_;
};

}  // namespace rocemu::sim
