// SPDX-License-Identifier: BSD-3-Clause
// See responder_resources.h. At most 128 entries, searched from the front.
#include "transport/responder_resources.h"

#include <algorithm>

namespace rocemu::transport {

bool ResponderResources::has_room(uint32_t depth) const {
    depth = std::min(depth, ring_.capacity());
    if (depth == 0) return false;
    // The peer may go on when it has the first answer; a repetition that it no longer waits for is given up.
    return ring_.size() < depth || !ring_.front().pending() || ring_.front().answered;
}

Resource& ResponderResources::add(uint32_t depth) {
    depth = std::min(depth, ring_.capacity());
    while (ring_.size() >= depth) {
        if (ring_.front().pending()) --pending_;
        ring_.pop();
    }
    ++pending_;
    Resource& r = ring_.push();
    r = Resource{};
    return r;
}

Resource* ResponderResources::find(uint64_t psn) {
    for (uint64_t n = ring_.head(); n != ring_.tail(); ++n) {
        Resource& r = ring_.at(n);
        if (psn >= r.first && psn < r.end) return &r;
    }
    return nullptr;
}

const Resource* ResponderResources::first_after(uint64_t psn) const {
    for (uint64_t n = ring_.head(); n != ring_.tail(); ++n)
        if (ring_.at(n).first > psn) return &ring_.at(n);
    return nullptr;
}

Resource* ResponderResources::oldest_pending() {
    if (pending_ == 0) return nullptr;
    for (uint64_t n = ring_.head(); n != ring_.tail(); ++n)
        if (ring_.at(n).pending()) return &ring_.at(n);
    return nullptr;
}

void ResponderResources::replay(Resource& r, uint64_t psn) {
    if (!r.pending()) ++pending_;
    r.replayed = r.answered;
    r.start = r.next = psn;
}

void ResponderResources::answered(Resource& r) {
    r.next = r.end;
    r.answered = true;
    --pending_;
}

void ResponderResources::cancel_from(uint64_t psn) {
    for (uint64_t n = ring_.head(); n != ring_.tail(); ++n) {
        Resource& r = ring_.at(n);
        if (!r.pending() || r.end <= psn) continue;
        r.next = r.end;
        --pending_;
    }
}

}  // namespace rocemu::transport
