// SPDX-License-Identifier: BSD-3-Clause
// Party: one end of a connection under the model check, whoever implements it: the core (core_party) or the naive
// reference (reference_party). Both see the same work requests, keys and memory addresses and speak in frames.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/model/schedule.h"
#include "tests/sim/link.h"
#include "transport/io.h"
#include "transport/work.h"

namespace rocemu::model {

// Keys that every party has, all for the whole memory.
inline constexpr uint32_t kAllKey = 0x105;      // all rights
inline constexpr uint32_t kDoomedKey = 0x205;   // all rights, until a Deregister event
inline constexpr uint32_t kPoorKey = 0x305;     // no remote rights
inline constexpr uint32_t kForeignKey = 0x405;  // of another protection domain
inline constexpr uint32_t kNoKey = 0x905;       // not there

inline constexpr uint32_t kQpn[2] = {0x11, 0x22};

struct SendRequest {
    transport::SendWqe wqe;  // wr_id and index are the party's
    std::vector<Sge> sges;
};

class Party {
  public:
    Party() = default;
    Party(const Party&) = delete;
    Party& operator=(const Party&) = delete;
    virtual ~Party() = default;

    virtual void send(const SendRequest& request) = 0;
    virtual void receive(const std::vector<Sge>& sges) = 0;
    virtual void remove_key(uint32_t key) = 0;
    // Accesses that touch [from, to) fail from now on.
    virtual void set_fault(uint64_t from, uint64_t to) = 0;
    virtual void set_state(QpState to) = 0;
    [[nodiscard]] virtual QpState state() const = 0;
    [[nodiscard]] virtual std::byte* memory(uint64_t va) = 0;

    virtual void deliver(const sim::FrameBytes& frame, Instant now) = 0;
    virtual void timers(Instant now) = 0;
    // Everything that can be done now; frames are appended to `out`.
    virtual void pump(Instant now, std::vector<sim::FrameBytes>& out) = 0;
    [[nodiscard]] virtual Instant next_event() const = 0;
    // What the party noticed itself; empty: nothing wrong.
    [[nodiscard]] virtual std::string violation() const { return {}; }

    // Each completion, in order, unsignaled ones too.
    std::function<void(const transport::Completion&)> on_completion;
};

}  // namespace rocemu::model
