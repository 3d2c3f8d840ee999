// SPDX-License-Identifier: BSD-3-Clause
// Session: what a shard keeps of an attached process: its shared page, its doorbells (scanned with private copies of
// the bits, so that a scan can stop anywhere and go on in the next turn) and its QPs by slot. An XRC domain is a session
// without a process: its target QPs belong to no program, and outlive any.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/address_table.h"
#include "engine/setup.h"

namespace rocemu::engine {

struct QpRecord;
struct SrqRecord;

struct Session {
    explicit Session(const SessionSetup& s) : setup(s) {}

    SessionSetup setup;
    std::vector<QpRecord*> by_slot;  // grows in create_qp only
    uint32_t qps = 0, cqs = 0;
    std::unordered_map<SrqId, SrqRecord*> xrc_srqs;  // of a domain
    AddressTable addresses;
    bool wake_owed = false;  // CQEs were written in this turn
    // Payload access under way: quotas, so that a process that does not answer holds up itself only.
    uint32_t place_jobs = 0, frames_held = 0, frames_kept = 0, gathers = 0;
    // Scheduler: QPs of this process that have something to do; sessions take turns.
    QpRecord* active_head = nullptr;
    QpRecord* active_tail = nullptr;
    Session* next_active = nullptr;
    bool active = false;
    // Doorbells taken from shared memory and not served yet.
    uint64_t top = 0;
    std::array<uint64_t, 16> summary{};

    [[nodiscard]] SrqRecord* find_xrc_srq(SrqId id) const {
        const auto it = xrc_srqs.find(id);
        return it == xrc_srqs.end() ? nullptr : it->second;
    }
    // Calls visit(QpRecord&) for rung QPs until about `budget` were visited (one word of 64 may go beyond). Bits of
    // slots that do not exist are forgotten. Returns how many were visited.
    template <typename Visit>
    uint32_t scan(uint32_t budget, Visit&& visit);
    // Something has been rung since the last scan, or its rest waits.
    [[nodiscard]] bool rung() const { return top != 0 || setup.doorbells->top.load(std::memory_order_seq_cst) != 0; }
};

template <typename Visit>
uint32_t Session::scan(uint32_t budget, Visit&& visit) {
    abi::DoorbellBlock& shared = *setup.doorbells;
    // A look before the exchange keeps the line shared while nothing was rung.
    if (shared.top.load(std::memory_order_relaxed) != 0) top |= shared.top.exchange(0);
    top &= (uint64_t{1} << summary.size()) - 1;  // the rest is not ours to believe
    uint32_t visited = 0;
    while (top != 0) {
        const auto i = static_cast<uint32_t>(std::countr_zero(top));
        summary[i] |= shared.summary[i].exchange(0);
        while (summary[i] != 0) {
            if (visited >= budget) return visited;
            const auto j = static_cast<uint32_t>(std::countr_zero(summary[i]));
            const uint32_t word = i * 64 + j;
            uint64_t bits = shared.words[word].exchange(0);
            summary[i] &= summary[i] - 1;
            for (; bits != 0; bits &= bits - 1) {
                const uint32_t slot = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
                ++visited;
                if (slot < by_slot.size() && by_slot[slot] != nullptr) visit(*by_slot[slot]);
            }
        }
        top &= top - 1;
    }
    return visited;
}

}  // namespace rocemu::engine
