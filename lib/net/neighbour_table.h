// SPDX-License-Identifier: BSD-3-Clause
// NeighbourTable: from an address on the link to its MAC address, with the states of RFC 4861 7.3.2 reduced to what a
// NIC needs. `now` comes in, requests to send and failures come out; whoever owns the table sends ARP or ND frames.
//
//   (absent) --resolve--> Incomplete --learn--> Reachable --kReachable--> Stale --resolve--> Probing --learn-->
//   Reachable
//                              |                                                                 |
//                              +-- kTries requests without answer --> Failed (forgotten after kFailedHold)
//
// Stale and Probing entries still answer look-ups: RoCE has no way to wait in the middle of a flow.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "wire/gid.h"
#include "wire/mac.h"

namespace rocemu::net {

class NeighbourTable {
  public:
    static constexpr Duration kRetry = kSecond;
    static constexpr uint32_t kTries = 3;
    static constexpr Duration kReachable = 60 * kSecond;
    static constexpr Duration kFailedHold = 2 * kSecond;

    enum class State : uint8_t { Incomplete, Reachable, Stale, Probing, Failed };

    explicit NeighbourTable(uint32_t capacity = 1024) : capacity_(capacity) { entries_.reserve(capacity); }

    // The MAC address if it is known, also an old one.
    [[nodiscard]] std::optional<wire::MacAddress> lookup(const wire::Gid& address) const;
    // Somebody needs it: starts or renews the search. False: it failed a moment ago, or the table is full.
    bool resolve(const wire::Gid& address, Instant now);
    // What a message told: nothing we want to know; the first MAC address of a neighbour, or the one it had; another one
    // than somebody may use, also one that was given before the search failed or the entry made room.
    enum class News : uint8_t { None, Known, Moved };
    // An ARP or ND message told it. Only addresses that were asked for, or known, are taken (RFC 826's merge rule; a
    // stranger cannot fill the table).
    News learn(const wire::Gid& address, const wire::MacAddress& mac, Instant now);

    // Addresses to ask for now; call until it returns less than the room given.
    size_t poll_requests(Instant now, std::span<wire::Gid> out);
    // Addresses whose search failed since the last call.
    size_t poll_failures(std::span<wire::Gid> out);
    [[nodiscard]] Instant next_deadline() const;

    [[nodiscard]] size_t size() const { return entries_.size(); }
    [[nodiscard]] std::optional<State> state_of(const wire::Gid& address) const;

  private:
    struct Entry {
        wire::Gid address;
        std::optional<wire::MacAddress> mac;  // the last one, also when it is not given out any more
        State state = State::Incomplete;
        uint32_t tries = 0;
        bool failure_told = true;
        Instant due;  // next request, end of Reachable, end of Failed
    };
    Entry* find(const wire::Gid& address);
    [[nodiscard]] const Entry* find(const wire::Gid& address) const;
    Entry* make(const wire::Gid& address);

    uint32_t capacity_;
    bool forgot_ = false;  // a MAC address that was given out
    std::vector<Entry> entries_;
};

}  // namespace rocemu::net
