// SPDX-License-Identifier: BSD-3-Clause
// Probe: one endpoint whose peer is the test itself: hand-made packets go in, what comes out is looked at. For rules
// that two well-behaved QPs never break. The probe plays 10.0.0.1; its requests begin at PSN 0x100, the endpoint's own
// at 0x200.
#pragma once

#include <vector>

#include "tests/sim/qp_pair.h"

namespace rocemu::sim {

struct Captured {
    FrameBytes frame;
    wire::PacketView view;

    [[nodiscard]] wire::Opcode opcode() const { return view.opcode(); }
    [[nodiscard]] uint32_t psn() const { return view.bth.psn; }
    [[nodiscard]] uint8_t syndrome() const { return view.aeth().syndrome; }
    [[nodiscard]] uint32_t msn() const { return view.aeth().msn; }
};
using Packets = std::vector<Captured>;

class Probe {
  public:
    explicit Probe(const PairOptions& options = {});

    // Hands in one packet. The endpoint sends nothing yet.
    void hand_in(wire::Opcode op, uint32_t psn, const wire::ExtHeaders& ext = {}, uint32_t payload = 0,
                 bool ack_req = true);
    // The same, and returns what the endpoint sends in answer.
    Packets inject(wire::Opcode op, uint32_t psn, const wire::ExtHeaders& ext = {}, uint32_t payload = 0,
                   bool ack_req = true);
    Packets write(wire::Opcode op, uint32_t psn, uint32_t payload, uint32_t total, uint64_t offset = 0x1000,
                  uint32_t rkey = kKey);
    Packets read(uint32_t psn, uint64_t offset, uint32_t length, uint32_t rkey = kKey);
    Packets fetch_add(uint32_t psn, uint64_t offset, uint64_t add);
    Packets answer(uint32_t psn, uint8_t syndrome, uint32_t msn = 0);  // ACK or NAK
    // What the endpoint wants to send now, timers included.
    Packets poll();
    // Lets time pass without the endpoint noticing before the next call.
    void wait(Duration d) { now = now + d; }

    Instant now{1000};
    Endpoint e;

  private:
    Packets drain();
    wire::HeaderTemplate headers_;
    Link out_;
};

}  // namespace rocemu::sim
