// SPDX-License-Identifier: BSD-3-Clause
// See impairer.h. One random draw decides the fate of a frame, so the sequence of faults depends on seed and frame
// number only, not on timing.
#include "fabric/impairer.h"

#include <algorithm>
#include <cstring>

namespace rocemu::fabric {

using stats::Counter;

namespace {
constexpr size_t kEthernetHeader = 14;
constexpr uint32_t kMillion = 1'000'000;
}  // namespace

Impairer::~Impairer() {
    for (auto& w : waiting_) pool_.free({&w.frame, 1});
}

void Impairer::configure(const Impairments& s, uint64_t stream) {
    settings_ = s;
    active_ = s.drop_ppm || s.duplicate_ppm || s.reorder_ppm || s.corrupt_ppm || s.delay > 0;
    if (s.seed != 0) state_ = s.seed * 0x9E3779B97F4A7C15ull + stream * 0xD1B54A32D192ED03ull + 1;
}

// splitmix64 (Steele, Lea, Flood 2014): any state is a good one.
uint64_t Impairer::random() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Cuts [0, million) into one interval per fault.
bool Impairer::hit(uint32_t ppm, uint32_t draw, uint32_t& base) const {
    const bool inside = draw >= base && draw - base < ppm;
    base += ppm;
    return inside;
}

void Impairer::corrupt(engine::Frame& frame) {
    if (frame.length <= kEthernetHeader) return;
    const uint64_t bits = (frame.length - kEthernetHeader) * uint64_t{8};
    const uint64_t bit = random() % bits;
    frame.data[kEthernetHeader + bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    counters_.add(Counter::fault_corrupted);
}

void Impairer::take(Instant now, engine::Frame frame) {
    Waiting w{frame, now + settings_.delay, 0};
    const auto draw = static_cast<uint32_t>(random() % kMillion);
    uint32_t base = 0;
    bool twice = false;
    if (hit(settings_.drop_ppm, draw, base)) {
        counters_.add(Counter::fault_dropped);
        pool_.free({&frame, 1});
        return;
    }
    if (hit(settings_.duplicate_ppm, draw, base)) {
        twice = true;
    } else if (hit(settings_.reorder_ppm, draw, base)) {
        w.behind = 1 + static_cast<uint32_t>(random() % 8);
        w.due = w.due + kReorderHold;
        counters_.add(Counter::fault_reordered);
    } else if (hit(settings_.corrupt_ppm, draw, base)) {
        corrupt(w.frame);
    }
    if (settings_.delay > 0) counters_.add(Counter::fault_delayed);
    engine::Frame copy;
    if (twice && pool_.alloc({&copy, 1})) {
        if (copy.room >= frame.length) {
            std::memcpy(copy.data, frame.data, frame.length);
            copy.length = frame.length;
            waiting_.push_back({copy, w.due, 0});
            counters_.add(Counter::fault_duplicated);
        } else {
            pool_.free({&copy, 1});
        }
    }
    waiting_.push_back(w);
}

// The first frame in the list that is due. A held-back frame is passed over until enough later ones have left or its
// time is up.
engine::Frame* Impairer::ready(Instant now) {
    for (size_t i = 0; i < waiting_.size(); ++i) {
        Waiting& w = waiting_[i];
        if (w.behind != 0 && w.due > now) continue;
        if (w.due > now) return nullptr;  // delayed frames stay in order
        ready_index_ = i;
        return &w.frame;
    }
    return nullptr;
}

void Impairer::pop() {
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(ready_index_));
    for (size_t i = 0; i < ready_index_ && i < waiting_.size(); ++i) {
        Waiting& w = waiting_[i];
        if (w.behind != 0 && --w.behind == 0) w.due = Instant{};  // enough have passed it
    }
}

Instant Impairer::next_deadline() const {
    Instant earliest = kNever;
    for (const auto& w : waiting_) {
        earliest = std::min(earliest, w.due);
        if (w.behind == 0) break;
    }
    return earliest;
}

}  // namespace rocemu::fabric
