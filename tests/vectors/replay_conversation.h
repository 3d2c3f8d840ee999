// SPDX-License-Identifier: BSD-3-Clause
// Conversation: the frames of one RC connection in a recording, taken apart: who sent what, which messages they form,
// what memory they show; or what one UC or datagram QP sent to another one, which nobody answers. The replay
// (replay_side.h) puts our QP in the place of either host. Frames of the loss-* recordings were captured behind the
// place where they were lost: what is there was delivered.
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
    wire::Transport transport = wire::Transport::Rc;
    std::vector<Recorded> frames;
    uint32_t qpn[2] = {0, 0};
    uint32_t start[2] = {0, 0};  // first PSN of each host's requests
    std::vector<PostedMessage> messages[2];
    uint8_t path_mtu = 3;
    bool loss = false;

    [[nodiscard]] uint32_t mtu() const { return 128u << path_mtu; }
    [[nodiscard]] uint64_t offset(uint32_t host, uint32_t psn) const { return (psn - start[host]) & Psn::kMask; }
};

// All RC connections of a recording that have requests.
[[nodiscard]] std::vector<Conversation> read_conversations(const std::string& path, const std::string& name);
// All that was sent over UC or UD, to QP 1 excepted (vectors/cm_replay.cpp), by sender and receiver.
[[nodiscard]] std::vector<Conversation> read_streams(const std::string& path, const std::string& name,
                                                     wire::Transport transport);

}  // namespace rocemu::replay
