// SPDX-License-Identifier: BSD-3-Clause
// ReferenceResponder: what a responder is, with nothing clever: each request packet is checked, executed and answered
// before the next one is looked at; every atomic result is kept for ever. Written from IBTA volume 1, 9.7.4 and 9.7.5
// alone.
#pragma once

#include <deque>
#include <functional>

#include "tests/model/reference_memory.h"
#include "wire/build.h"
#include "wire/packet_view.h"

namespace rocemu::model {

struct Answer {
    wire::Opcode opcode{};
    uint32_t psn = 0;
    wire::Aeth aeth{};
    uint64_t original = 0;
    std::vector<std::byte> payload;
};

class ReferenceResponder {
  public:
    ReferenceResponder(const Settings& settings, ReferenceMemory& memory, uint32_t first_psn)
        : settings_(settings), memory_(memory), mtu_(128u << settings.mtu), expected_(first_psn) {}

    struct Receive {
        std::vector<Sge> sges;
        uint64_t length = 0;
    };
    std::deque<Receive> receives;  // posted and not taken
    std::vector<Answer> answers;   // to be sent, in order
    bool refused = false;          // the QP must go to ERR
    std::function<void(const transport::Completion&)> on_receive;

    void handle(const wire::PacketView& p);
    // The QP is in ERR: gives all receives back.
    void flush();

  private:
    void duplicate(const wire::PacketView& p);
    void expected(const wire::PacketView& p);
    bool take_receive();
    void send_packet(const wire::PacketView& p);
    void write_packet(const wire::PacketView& p);
    void read_request(const wire::PacketView& p, bool again);
    void atomic_request(const wire::PacketView& p);
    void accepted(const wire::PacketView& p, uint32_t psns);
    void complete(const wire::PacketView& p, WcStatus status);
    void acknowledge();
    void refuse(wire::NakCode code);

    const Settings& settings_;
    ReferenceMemory& memory_;
    uint32_t mtu_;
    uint32_t expected_;  // 24 bits
    uint32_t msn_ = 0;
    bool asked_again_ = false;  // a NAK for the gap before the expected packet was sent
    // The message that is coming in.
    bool in_send_ = false, in_write_ = false;
    Receive receive_;
    bool has_receive_ = false;
    uint64_t received_ = 0, write_va_ = 0, write_left_ = 0, write_total_ = 0;
    uint32_t write_rkey_ = 0;
    std::map<uint32_t, uint64_t> atomic_results_;  // by PSN
};

}  // namespace rocemu::model
