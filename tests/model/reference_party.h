// SPDX-License-Identifier: BSD-3-Clause
// ReferenceParty: reference requester and responder joined to a QP that speaks in frames.
#pragma once

#include "tests/model/reference_requester.h"
#include "tests/model/reference_responder.h"

namespace rocemu::model {

class ReferenceParty : public Party {
  public:
    ReferenceParty(const Settings& settings, uint32_t who, uint64_t memory_bytes);

    void send(const SendRequest& request) override { requester_.post(request); }
    void receive(const std::vector<Sge>& sges) override { responder_.receives.push_back({sges, 0}); }
    void remove_key(uint32_t key) override { memory_.remove_key(key); }
    void set_fault(uint64_t from, uint64_t to) override { memory_.set_fault(from, to); }
    void set_state(QpState to) override {
        if (state_ == QpState::Err) return;
        state_ = to;
        requester_.draining = to == QpState::Sqd;
    }
    [[nodiscard]] QpState state() const override { return state_; }
    [[nodiscard]] std::byte* memory(uint64_t va) override { return memory_.at(va); }
    void deliver(const sim::FrameBytes& frame, Instant now) override;
    void timers(Instant now) override { requester_.timers(now); }
    void pump(Instant now, std::vector<sim::FrameBytes>& out) override;
    [[nodiscard]] Instant next_event() const override { return requester_.deadline(); }

  private:
    void send_answers(std::vector<sim::FrameBytes>& out);
    sim::FrameBytes frame(wire::Opcode op, uint32_t psn, bool ack_req, bool solicited, const wire::ExtHeaders& ext,
                          const std::vector<std::byte>& payload);
    void check_state();

    Settings settings_;
    uint32_t who_;
    ReferenceMemory memory_;
    QpState state_ = QpState::Rts;
    uint64_t sends_ = 0, receives_ = 0;
    ReferenceRequester requester_;
    ReferenceResponder responder_;
};

}  // namespace rocemu::model
