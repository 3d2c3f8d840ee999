// SPDX-License-Identifier: BSD-3-Clause
// All that was recorded over UC and UD, with our QP in the place of sender and receiver (replay_side.h); and that no
// recorded frame is left out of all the replays.
#include <catch2/catch.hpp>

#include "support/pcap.h"
#include "tests/vectors/replay_side.h"
#include "wire/parse.h"

using namespace rocemu;
using namespace rocemu::replay;

namespace {

std::vector<std::string> recordings() {
    std::vector<std::string> names;
    for (const auto& path : test::pcap_files(VECTORS_DIR))
        names.push_back(std::filesystem::relative(path, VECTORS_DIR).string());
    return names;
}

// The frames of messages that were found whole.
uint64_t frames_in_messages(const Conversation& c) {
    uint64_t n = 0;
    for (const auto& list : c.messages)
        for (const PostedMessage& m : list) n += m.end - m.first;
    return n;
}

}  // namespace

TEST_CASE("each recorded UC and datagram stream, with us as its sender and as its receiver",
          "[vectors][uc][ud][9.8.2][9.8.3][case1][case4]") {
    for (const auto transport : {wire::Transport::Uc, wire::Transport::Ud}) {
        size_t streams = 0;
        uint64_t requests = 0, completions = 0;
        for (const std::string& name : recordings())
            for (const Conversation& c : read_streams(VECTORS_DIR, name, transport)) {
                ++streams;
                for (uint32_t host = 0; host < 2; ++host) {
                    Side side(c, host);
                    for (const std::string& difference : side.run()) {
                        INFO(name << ", we are host " << host << ": " << difference);
                        CHECK(false);
                    }
                    requests += side.compared_requests;
                    completions += side.completions;
                }
            }
        WARN(streams << " streams, " << requests << " packets, " << completions << " completions compared");
        CHECK(streams >= 10);
        CHECK(requests > 90);
        CHECK(completions > 100);
    }
}

TEST_CASE("no recorded frame is left out of the replays", "[vectors]") {
    for (const std::string& name : recordings()) {
        INFO(name);
        std::map<wire::Transport, uint64_t> there, replayed;
        for (const auto& frame : test::read_pcap(std::filesystem::path(VECTORS_DIR) / name)) {
            wire::PacketView v;
            REQUIRE(wire::parse_frame(frame, v).ok());
            if (v.bth.dest_qp != 1) ++there[v.op->transport];  // MADs: vectors/cm_replay.cpp
        }
        for (const Conversation& c : read_conversations(VECTORS_DIR, name)) {
            replayed[wire::Transport::Rc] += c.frames.size();
        }
        for (const auto transport : {wire::Transport::Uc, wire::Transport::Ud})
            for (const Conversation& c : read_streams(VECTORS_DIR, name, transport))
                replayed[transport] += frames_in_messages(c);
        std::erase_if(replayed, [](const auto& item) { return item.second == 0; });
        CHECK(there == replayed);
    }
}
