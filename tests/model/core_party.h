// SPDX-License-Identifier: BSD-3-Clause
// CoreParty: the transport core as a party of the model check, by way of the simulation's endpoint.
#pragma once

#include "tests/model/party.h"
#include "tests/sim/endpoint.h"

namespace rocemu::model {

class CoreParty : public Party {
  public:
    // `who`: 0 for A, 1 for B.
    CoreParty(const Settings& settings, uint32_t who, uint64_t memory_bytes);

    void send(const SendRequest& request) override { endpoint_.send({request.wqe, request.sges}); }
    void receive(const std::vector<Sge>& sges) override { endpoint_.receive(sges); }
    void remove_key(uint32_t key) override { endpoint_.keys.remove(key); }
    void set_fault(uint64_t from, uint64_t to) override {
        endpoint_.memory.fault_from = from;
        endpoint_.memory.fault_to = to;
    }
    void set_state(QpState to) override;
    [[nodiscard]] QpState state() const override { return endpoint_.qp.state(); }
    [[nodiscard]] std::byte* memory(uint64_t va) override { return endpoint_.memory.at(va); }

    void deliver(const sim::FrameBytes& frame, Instant now) override { endpoint_.deliver(frame, now); }
    void timers(Instant now) override { endpoint_.timers(now); }
    void pump(Instant now, std::vector<sim::FrameBytes>& out) override;
    [[nodiscard]] Instant next_event() const override { return endpoint_.next_event(); }
    [[nodiscard]] std::string violation() const override {
        return endpoint_.violations.empty() ? std::string{} : endpoint_.violations.front();
    }

  private:
    sim::Endpoint endpoint_;
    sim::Link outlet_{1};  // collects frames; the runner's wire has the latency and the faults
};

}  // namespace rocemu::model
