// SPDX-License-Identifier: BSD-3-Clause
// See flows.h.
#include "engine/flows.h"

#include <algorithm>

namespace rocemu::engine {

namespace {

constexpr uint64_t kNobody = ~uint64_t{0};

bool wants(const FlowSetup& rule, const FlowKey& frame) {
    if (rule.kind == FlowKind::DefaultGroup && (frame.dst_mac[0] & 1) == 0) return false;
    return fits(frame, rule.key, rule.mask);
}

// Smaller is served first. IBV_FLOW_ATTR_*_DEFAULT: behind every other rule.
uint64_t rank_of(const FlowSetup& rule) {
    return uint64_t{rule.kind != FlowKind::Normal} << 32 | rule.priority;
}

}  // namespace

void Flows::erase(SessionId session, uint32_t id) {
    std::erase_if(rules_, [&](const FlowSetup& r) { return r.session == session && r.id == id; });
}

std::span<const FlowSetup* const> Flows::match(const FlowKey& frame) {
    matched_.clear();
    uint64_t best = kNobody;
    for (const FlowSetup& rule : rules_) {
        const uint64_t rank = rank_of(rule);
        if (rank > best || !wants(rule, frame)) continue;
        if (rank < best) matched_.clear();
        best = rank;
        matched_.push_back(&rule);
    }
    return matched_;
}

uint32_t Flows::target_of(const FlowSetup& rule, const FlowKey& frame) {
    if (rule.queues.size() == 1) return rule.queues.front();
    return rule.queues[net::rx_hash_of(rule.hash, frame) & (rule.queues.size() - 1)];
}

}  // namespace rocemu::engine
