// SPDX-License-Identifier: BSD-3-Clause
// NeighbourTable: the state machine drawn in neighbour_table.h. Look-ups are linear: only control uses the table, once
// per modify_qp or address handle.
#include "net/neighbour_table.h"

#include <algorithm>
#include <utility>

namespace rocemu::net {

NeighbourTable::Entry* NeighbourTable::find(const wire::Gid& address) {
    const auto it =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.address == address; });
    return it == entries_.end() ? nullptr : &*it;
}
const NeighbourTable::Entry* NeighbourTable::find(const wire::Gid& address) const {
    return const_cast<NeighbourTable*>(this)->find(address);
}

// Takes a free place, or that of an entry nobody waits for: one that is out of date, else the one heard of longest ago.
NeighbourTable::Entry* NeighbourTable::make(const wire::Gid& address) {
    if (entries_.size() >= capacity_) {
        const auto rank = [](const Entry& e) {
            if (e.state == State::Stale || (e.state == State::Failed && e.failure_told)) return 0;
            return e.state == State::Reachable ? 1 : 2;
        };
        const auto victim = std::min_element(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
            return std::pair(rank(a), a.due) < std::pair(rank(b), b.due);
        });
        if (rank(*victim) == 2) return nullptr;
        forgot_ |= victim->mac.has_value();
        *victim = entries_.back();
        entries_.pop_back();
    }
    entries_.push_back({});
    entries_.back().address = address;
    return &entries_.back();
}

std::optional<wire::MacAddress> NeighbourTable::lookup(const wire::Gid& address) const {
    const Entry* e = find(address);
    if (!e || e->state == State::Incomplete || e->state == State::Failed) return std::nullopt;
    return e->mac;
}

std::optional<NeighbourTable::State> NeighbourTable::state_of(const wire::Gid& address) const {
    const Entry* e = find(address);
    return e ? std::optional(e->state) : std::nullopt;
}

bool NeighbourTable::resolve(const wire::Gid& address, Instant now) {
    Entry* e = find(address);
    if (!e) {
        e = make(address);
        if (!e) return false;
    } else if (e->state == State::Stale) {
        e->state = State::Probing;
    } else if (e->state == State::Failed) {
        if (now < e->due) return false;
        e->state = State::Incomplete;
    } else {
        return true;
    }
    e->tries = 0;
    e->due = now;
    return true;
}

NeighbourTable::News NeighbourTable::learn(const wire::Gid& address, const wire::MacAddress& mac, Instant now) {
    Entry* e = find(address);
    if (!e || wire::is_multicast(mac)) return News::None;
    const bool moved = e->mac ? *e->mac != mac : forgot_;
    e->mac = mac;
    e->state = State::Reachable;
    e->tries = 0;
    e->due = now + kReachable;
    return moved ? News::Moved : News::Known;
}

size_t NeighbourTable::poll_requests(Instant now, std::span<wire::Gid> out) {
    size_t n = 0;
    for (auto& e : entries_) {
        if (now < e.due || e.due == kNever) continue;
        if (e.state == State::Reachable) {
            e.state = State::Stale;
            continue;
        }
        if (e.state != State::Incomplete && e.state != State::Probing) continue;
        if (e.tries == kTries) {
            // A neighbour that does not answer any more keeps its old address until it is asked for again: the next
            // modify_qp starts a fresh search, and only that one fails.
            e.failure_told = e.state == State::Probing;
            e.state = State::Failed;
            e.due = now + kFailedHold;
            continue;
        }
        if (n == out.size()) break;
        out[n++] = e.address;
        ++e.tries;
        e.due = now + kRetry;
    }
    return n;
}

size_t NeighbourTable::poll_failures(std::span<wire::Gid> out) {
    size_t n = 0;
    for (auto& e : entries_) {
        if (e.state != State::Failed || e.failure_told || n == out.size()) continue;
        e.failure_told = true;
        out[n++] = e.address;
    }
    return n;
}

Instant NeighbourTable::next_deadline() const {
    Instant next = kNever;
    for (const auto& e : entries_) {
        if (e.state == State::Failed && !e.failure_told) return {0};
        if (e.state == State::Incomplete || e.state == State::Probing || e.state == State::Reachable)
            next = std::min(next, e.due);
    }
    return next;
}

}  // namespace rocemu::net
