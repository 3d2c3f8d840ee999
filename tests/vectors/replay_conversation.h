// SPDX-License-Identifier: BSD-3-Clause
// Conversation: the RC frames of one connection in a recording, taken apart: who sent what, which messages they form,
// what memory they show. The replay (replay_side.h) puts our QP in the place of either host. Frames of the loss-*
// recordings were captured behind the place where they were lost: what is there was delivered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/psn.h"
#include "tests/sim/link.h"
#include "wire/packet_view.h"

namespace rocemu::replay {

struct Recorded {
    sim::FrameBytes bytes;
    wire::PacketView view;
    uint32_t host = 0;  // who sent it: 0 is 10.77.0.1 (or its IPv6 address), 1 its peer

    [[nodiscard]] bool request() const { return view.op->is_request(); }
    [[nodiscard]] uint32_t psn() const { return view.bth.psn; }
};

// A message as its sender posted it.
struct PostedMessage {
    uint64_t first = 0, end = 0;     // PSNs, counted from the sender's first
    const Recorded* head = nullptr;  // FIRST, ONLY, READ or atomic request
    const Recorded* tail = nullptr;  // LAST or ONLY
    std::vector<std::byte> payload;
    uint32_t bytes = 0;  // of the message; a READ's length
};

struct Conversation {
    std::string file;
    std::vector<Recorded> frames;
    uint32_t qpn[2] = {0, 0};
    uint32_t start[2] = {0, 0};  // first PSN of each host's requests
    std::vector<PostedMessage> messages[2];
    uint8_t path_mtu = 3;
    bool loss = false;

    [[nodiscard]] uint32_t mtu() const { return 128u << path_mtu; }
    [[nodiscard]] uint64_t offset(uint32_t host, uint32_t psn) const { return (psn - start[host]) & Psn::kMask; }
    [[nodiscard]] bool has_opcode(wire::Operation op) const;
};

// All RC connections of a recording that have requests.
[[nodiscard]] std::vector<Conversation> read_conversations(const std::string& path, const std::string& name);

}  // namespace rocemu::replay
